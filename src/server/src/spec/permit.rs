//! What a gate asks for: types that name it, as in `Org<JobsRead>` and `Org<Quota<JobsWrite>>`, and what a plan must have.
//!
//! A marker is a type and never a value, so a permission can neither be forgotten in a call nor be computed at run time.

use base::permission::Permission;
use std::marker::PhantomData;

/// A feature that a plan may or may not have, by its key among the `features` in `data/plans.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entitlement(pub &'static str);

impl Entitlement {
    /// The key in `data/plans.toml`.
    pub fn name(self) -> &'static str {
        self.0
    }
}

/// What an [`Org`](crate::Org) gate asks for.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    pub permission: Option<Permission>,
    pub verified: bool,
    pub quota: QuotaNeed,
    pub browser: bool,
}

/// What the quota gate asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaNeed {
    None,
    /// A plan that has not ended, and credits.
    Credits,
    /// A plan that has not ended. What it costs is known only to the operation, which asks for the credits itself: the
    /// repetition of a request that was paid costs nothing.
    Priced,
}

/// A marker that names what is asked for.
pub trait Requirement: Send + Sync {
    const NEEDS: Needs;
}

/// Any member of an organization.
pub enum Member {}

impl Requirement for Member {
    const NEEDS: Needs = Needs { permission: None, verified: false, quota: QuotaNeed::None, browser: false };
}

/// `P`, and a verified e-mail address.
pub struct Verified<P>(PhantomData<P>);

impl<P: Requirement> Requirement for Verified<P> {
    const NEEDS: Needs = Needs { verified: true, ..P::NEEDS };
}

/// `P`, and credits left in a plan that has not ended.
pub struct Quota<P>(PhantomData<P>);

impl<P: Requirement> Requirement for Quota<P> {
    const NEEDS: Needs = Needs { quota: QuotaNeed::Credits, ..P::NEEDS };
}

/// `P`, in a plan that has not ended, for an operation that reserves what it costs.
pub struct Spends<P>(PhantomData<P>);

impl<P: Requirement> Requirement for Spends<P> {
    const NEEDS: Needs = Needs { quota: QuotaNeed::Priced, ..P::NEEDS };
}

/// `P`, by an access token and not an API key.
pub struct ByBrowser<P>(PhantomData<P>);

impl<P: Requirement> Requirement for ByBrowser<P> {
    const NEEDS: Needs = Needs { browser: true, ..P::NEEDS };
}

macro_rules! permission_markers {
    ($($name:ident $text:literal;)*) => {
        $(
            #[doc = concat!("Holders of `", $text, "`.")]
            pub enum $name {}

            impl Requirement for $name {
                const NEEDS: Needs = Needs { permission: Some(Permission::$name), ..Member::NEEDS };
            }
        )*
    };
}

base::each_permission!(permission_markers);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_adds_up() {
        let needs = <Quota<Verified<JobsWrite>>>::NEEDS;
        assert_eq!(needs.permission, Some(Permission::JobsWrite));
        assert!(needs.verified && needs.quota == QuotaNeed::Credits && !needs.browser);
    }
}
