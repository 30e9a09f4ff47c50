//! Putting back the jobs that stand as running although nobody runs them: what a dead process left, what a claim left that
//! was said to have failed, and leases that ended.
//!
//! All of it is one operation for many jobs. Where a row cannot be read it is one for each, and that job is left alone from
//! then on: nobody else waits for it.

use super::dispatch::Dispatcher;
use super::finish::{Interruption, RequeueOutcome, put_back};
use super::rows::{JOBS, LEASE, QUEUE, QUEUE_BEFORE};
use super::walks::PLANNED_STOP;
use base::Result;
use base::ids::{JobId, OrgId};
use store::{Seek, SysWrite, readable};

/// Jobs put back by one write operation.
const RECOVERED_PER_WRITE: usize = 256;

/// What becomes of the mark of a planned stop.
#[derive(Clone, Copy)]
enum StopMark {
    Stays,
    Goes,
}

/// Which leases are looked at.
#[derive(Clone, Copy)]
enum LeaseFilter {
    Any,
    Ended,
}

impl Dispatcher {
    /// Puts back the jobs that a dead process left running, and takes over the queue of an older release; gives how many
    /// were put back.
    pub(super) async fn recover(&self) -> Result<usize> {
        while self.system.write(move_queue).await? > 0 {}
        let mut total = 0;
        loop {
            let lost = self.left_running(LeaseFilter::Any)?;
            let count = lost.len();
            // A planned restart cut them off, which is nobody's fault. Its mark is for them alone: it goes with the last of
            // them, so that nothing which is cut off later is told to have been planned.
            let planned = self.system.read(|tx| tx.get(&PLANNED_STOP, &()));
            // One that cannot be read was written by a stop all the same.
            let is_planned =
                readable("that the box was told to stop", "", planned)?.is_none_or(|row| row.is_some());
            let cut = if is_planned { Interruption::ByTheBox } else { Interruption::Unknown };
            let ends_with =
                if is_planned && count < RECOVERED_PER_WRITE { StopMark::Goes } else { StopMark::Stays };
            self.put_back_lost(lost, cut, ends_with).await?;
            total += count;
            if count < RECOVERED_PER_WRITE {
                return Ok(total);
            }
        }
    }

    /// Some of the jobs with such a lease that nobody here runs.
    fn left_running(&self, lease: LeaseFilter) -> Result<Vec<(OrgId, JobId)>> {
        let (running, unreadable) = (self.running_ids(), self.unreadable.lock().clone());
        let limit = RECOVERED_PER_WRITE + running.len() + unreadable.len();
        self.system.read(|tx| {
            let end = match lease {
                LeaseFilter::Any => None,
                LeaseFilter::Ended => Some(tx.moment()),
            };
            let found = tx.scan_global(&JOBS, &LEASE, &Seek::start(), end, limit)?;
            let left = found.entries.into_iter().map(|entry| (entry.org, entry.key));
            // Of an organization that is being erased the entries go by themselves.
            let left = left.filter(|(org, id)| {
                !running.contains(&(*org, *id)) && !unreadable.contains(id) && !tx.is_fenced(*org)
            });
            Ok(left.take(RECOVERED_PER_WRITE).collect())
        })
    }

    /// Puts back jobs whose lease has ended although nobody here runs them.
    pub(super) async fn put_back_expired(&self) -> Result<()> {
        let lost = self.left_running(LeaseFilter::Ended)?;
        if lost.is_empty() {
            return Ok(());
        }
        tracing::warn!(jobs = lost.len(), "leases ended without a result; the jobs run again");
        self.put_back_lost(lost, Interruption::Unknown, StopMark::Stays).await
    }

    /// Puts back jobs to which entries of leases led. An entry that leads to no running job twice is damaged, and is passed
    /// over.
    async fn put_back_lost(
        &self,
        lost: Vec<(OrgId, JobId)>,
        cut: Interruption,
        mark: StopMark,
    ) -> Result<()> {
        let put_back = self.put_back_with(lost.clone(), cut, mark).await?;
        let untouched =
            lost.into_iter().zip(put_back).filter(|(_, put)| matches!(put, RequeueOutcome::Untouched));
        untouched.for_each(|((org, id), _)| self.led_nowhere(org, id));
        Ok(())
    }

    /// Puts back jobs of a claim that failed and was kept all the same.
    pub(super) async fn put_back_doubtful(&self) -> Result<()> {
        let doubtful = self.doubtful.lock().clone();
        if doubtful.is_empty() {
            return Ok(());
        }
        let (count, running) = (doubtful.len(), self.running_ids());
        let lost = doubtful.into_iter().filter(|entry| !running.contains(entry)).collect();
        self.put_back_all(lost, Interruption::ByTheBox).await?;
        self.doubtful.lock().drain(..count);
        // Most of them stand in the queue as before, and what the queue knew of them is gone.
        self.look_again();
        Ok(())
    }

    pub(super) async fn put_back_all(
        &self,
        lost: Vec<(OrgId, JobId)>,
        cut: Interruption,
    ) -> Result<Vec<RequeueOutcome>> {
        self.put_back_with(lost, cut, StopMark::Stays).await
    }

    /// The same; the mark of a planned stop goes in the operation that puts them back.
    async fn put_back_with(
        &self,
        lost: Vec<(OrgId, JobId)>,
        cut: Interruption,
        mark: StopMark,
    ) -> Result<Vec<RequeueOutcome>> {
        let jobs = lost.iter().copied().map(Some);
        let with_mark: Vec<_> = jobs.chain(matches!(mark, StopMark::Goes).then_some(None)).collect();
        let putting_back = self.system.write_each("a job", with_mark, move |tx, lost| match lost {
            None => tx.delete(&PLANNED_STOP, &()).map(|_| RequeueOutcome::Untouched),
            Some((org, _)) if tx.is_fenced(*org) => Ok(RequeueOutcome::Untouched),
            Some((org, id)) => put_back(&tx.org(*org), *id, tx.moment(), cut),
        });
        // The mark stands last, and is no job.
        let put_back = putting_back.await?.into_iter().zip(lost).map(|(put_back, (org, id))| {
            let put_back = put_back.unwrap_or_else(|| {
                self.pass_over(id);
                RequeueOutcome::Untouched
            });
            self.note_put_back(org, &put_back);
            put_back
        });
        Ok(put_back.collect())
    }
}

/// Moves some jobs from the queue as older releases kept it; gives how many.
fn move_queue(tx: &SysWrite<'_>) -> Result<usize> {
    let moved = tx.retire_entries::<JobId>(QUEUE_BEFORE, RECOVERED_PER_WRITE)?;
    let count = moved.len();
    for (org, id) in moved {
        let own = tx.org(org);
        match own.get(&JOBS, &id) {
            Ok(Some(job)) => own.fill_index(&QUEUE, &id, &job),
            Ok(None) => {}
            Err(error) => tracing::error!(%org, job = %id, %error, "a job in the queue cannot be read"),
        }
    }
    Ok(count)
}
