//! Whose rows: those of one organization, or those without one.

use base::ids::OrgId;

/// The scope of one organization.
#[derive(Clone, Copy)]
pub struct OrgScope(pub(super) OrgId);

/// The scope of rows without an organization.
#[derive(Clone, Copy)]
pub struct SystemScope;

/// What stands in front of every key of a scope.
pub trait Scope: Copy + 'static {
    /// Length of what stands in front.
    const PREFIX_BYTES: usize;

    fn prefix(&self) -> Vec<u8>;

    fn org(&self) -> Option<OrgId>;
}

impl Scope for OrgScope {
    const PREFIX_BYTES: usize = 16;

    fn prefix(&self) -> Vec<u8> {
        self.0.0.as_bytes().to_vec()
    }

    fn org(&self) -> Option<OrgId> {
        Some(self.0)
    }
}

impl Scope for SystemScope {
    const PREFIX_BYTES: usize = 0;

    fn prefix(&self) -> Vec<u8> {
        Vec::new()
    }

    fn org(&self) -> Option<OrgId> {
        None
    }
}
