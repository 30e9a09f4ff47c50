//! The box's slots: how many jobs run at once, and who may begin one more.
//!
//! While a slot is free, everybody may. A page that never answers holds its slot for as long as its job may take, so when
//! all are in use nobody is to wait for their ends who has less than an equal share of them: there are as many again
//! beside them, for such organizations alone. Nobody comes to more than a share that way, and where runs end, all runs
//! together are soon no more than the slots again, because who has a share begins nothing while they are all in use.
//!
//! The next newcomer wants slots, too: beside, an organization has no more of them than it leaves free. So one that comes
//! while another holds all slots has its whole share at once (16 of 32), one that comes while those two hold theirs three
//! quarters of its share (8), the next one half of it (4), and each further one has a slot at once as long as there are any.

/// How many jobs run at once at most, beside each other's slots.
pub fn runs_max(slots: usize) -> usize {
    slots.saturating_mul(2)
}

/// How many slots there are and are in use.
pub(super) struct SlotCounts {
    usual: usize,
    in_use: usize,
    /// Organizations with a run.
    busy: usize,
}

impl SlotCounts {
    pub fn new(usual: usize) -> SlotCounts {
        SlotCounts { usual, in_use: 0, busy: 0 }
    }

    /// Slots that nobody has, those beside the others included.
    pub fn free(&self) -> usize {
        runs_max(self.usual).saturating_sub(self.in_use)
    }

    /// Whether an organization with so many runs may begin one more.
    pub fn may_begin(&self, running: usize) -> bool {
        if self.in_use < self.usual {
            return true;
        }
        let busy = self.busy + usize::from(running == 0);
        let share = (self.usual / busy.max(1)).max(1);
        running < share.min(self.free())
    }

    /// An organization with so many runs begins one more.
    pub fn begin(&mut self, running: usize) {
        self.in_use += 1;
        self.busy += usize::from(running == 0);
    }

    /// One of so many runs of an organization ends.
    pub fn end(&mut self, running: usize) {
        self.in_use = self.in_use.saturating_sub(1);
        self.busy = self.busy.saturating_sub(usize::from(running == 1));
    }
}
