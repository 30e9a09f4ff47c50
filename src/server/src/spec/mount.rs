//! What holds for everything below a path of a slice's: which errors it answers with, and whom it lets in unasked.
//!
//! A slice declares its mount beside its routes ([`RouteGroup`](crate::RouteGroup)). It holds for every route below its path,
//! whoever adds one, and for paths there that do not exist.

use crate::spec::permit::Entitlement;
use base::Code;

/// A path of the API with rules of its own.
#[derive(Debug)]
pub struct Mount {
    /// Where it begins, without a slash at the end: `/api/v1/things`.
    pub path: &'static str,
    /// What the organization's plan must have, unless a route asks for something else.
    pub plan: Option<Entitlement>,
    /// Whether callers need a verified e-mail address, whatever a route asks for.
    pub verified: bool,
    /// Whether errors are structured, as `application/json`, whatever a caller accepts.
    pub structured: bool,
    /// The codes of the gates' refusals.
    pub refusals: RefusalCodes,
}

/// The codes with which the gates refuse.
#[derive(Clone, Copy, Debug)]
pub struct RefusalCodes {
    /// The caller has no organization.
    pub org: Code,
    /// The organization's plan does not have it.
    pub plan: Code,
    /// The caller's e-mail address is not verified.
    pub unverified: Code,
    /// The caller's role or key does not permit it.
    pub permission: Code,
}

/// What holds everywhere else.
pub(crate) static UNMOUNTED: Mount = Mount {
    path: "",
    plan: None,
    verified: false,
    structured: false,
    refusals: RefusalCodes {
        org: Code::OrgNotFound,
        plan: Code::PlanRequired,
        unverified: Code::AuthForbidden,
        permission: Code::AuthForbidden,
    },
};

impl Mount {
    /// Whether the path is the mount's, or below it.
    pub fn holds(&self, path: &str) -> bool {
        path.strip_prefix(self.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// The mount of a path among these; [`UNMOUNTED`] where there is none.
pub(crate) fn of(path: &str, mounts: impl IntoIterator<Item = &'static Mount>) -> &'static Mount {
    mounts.into_iter().find(|mount| mount.holds(path)).unwrap_or(&UNMOUNTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_begins_with_a_whole_segment() {
        static THINGS: Mount = Mount { path: "/api/v1/things", ..UNMOUNTED };
        let is_below = |path: &str| std::ptr::eq(of(path, [&THINGS]), &THINGS);
        assert!(is_below("/api/v1/things") && is_below("/api/v1/things/{id}/parts"));
        assert!(!is_below("/api/v1/thingses") && !is_below("/api/v1") && !is_below("/api/v1/others"));
        assert!(std::ptr::eq(of("/api/v1/things", []), &UNMOUNTED));
    }
}
