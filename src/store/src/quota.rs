//! Who says whether an organization has room.

use super::counts::PendingGrowth;
use super::raw::View;
use base::Result;
use base::clock::Now;
use base::ids::OrgId;
use std::sync::OnceLock;

/// Says whether an organization, whose rows are read in this view, has room for what an operation adds.
pub(super) type ViewCheck = dyn Fn(&dyn View, OrgId, &Now, &PendingGrowth) -> Result<()> + Send + Sync;

/// Who says so; nobody until the slice that knows has come.
#[derive(Default)]
pub(super) struct QuotaHook(OnceLock<Box<ViewCheck>>);

impl QuotaHook {
    pub(super) fn set(&self, room: Box<ViewCheck>) {
        if self.0.set(room).is_err() {
            tracing::error!("the store knows already who limits its room; the second one is not asked");
        }
    }

    pub(super) fn ask(&self, view: &dyn View, org: OrgId, now: &Now, adding: &PendingGrowth) -> Result<()> {
        self.0.get().map_or(Ok(()), |room| room(view, org, now, adding))
    }
}
