//! One look at the clock: what dates and moments are of each other as the clock was set until then.

use super::{ALWAYS, JUMP_MIN, Moment, OffsetPeriod, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// One look at the box's clock.
#[derive(Clone, Debug)]
pub struct Now {
    /// What a calendar shows.
    pub date: Timestamp,
    /// Where the box's own time stands.
    pub moment: Moment,
    pub(super) stretches: Arc<[OffsetPeriod]>,
    pub(super) went_back: bool,
}

impl Now {
    /// The date that a moment has, has had, or will have if the clock is not set before.
    pub fn date_of(&self, moment: Moment) -> Timestamp {
        let within =
            self.stretches.iter().rev().find(|stretch| stretch.since <= moment.0).or(self.stretches.first());
        Timestamp(moment.0.saturating_add(within.map_or(0, |stretch| stretch.ahead)))
    }

    /// The moment at which the box wrote a date, so that what has happened in between can be told although the clock was
    /// set. Of several moments that had the date it is the last one.
    ///
    /// Dates that no moment had:
    /// - While a clock that was put back by less than a jump is waited for, dates stand still before their moments. What was
    ///   written then is of the end of its stretch, and not of whatever stretch had that date long ago.
    /// - Where two stretches became one, the dates of the other lie beside it: the nearest stretch it is.
    /// - What comes after all dates is of the present, and what comes before all is as old as it says.
    pub fn moment_of(&self, date: Timestamp) -> Moment {
        let (mut end, mut latest) = (self.moment.0, i64::MIN);
        let (mut least, mut nearest) = (i64::MAX, end);
        for stretch in self.stretches.iter().rev() {
            let moment = date.0.saturating_sub(stretch.ahead);
            let beside = stretch.since.saturating_sub(moment).max(moment.saturating_sub(end)).max(0);
            if beside == 0 || moment > end && beside < JUMP_MIN.as_millis() as i64 {
                return Moment(moment.min(end));
            }
            if beside < least {
                let is_first = std::ptr::eq(stretch, &self.stretches[0]);
                (least, nearest) =
                    (beside, if is_first { moment } else { moment.max(stretch.since) }.min(end));
            }
            latest = latest.max(end.saturating_add(stretch.ahead));
            end = stretch.since;
        }
        if date.0 > latest { self.moment } else { Moment(nearest) }
    }

    /// For how long a date that the box wrote has been past.
    pub fn age(&self, date: Timestamp) -> Duration {
        self.moment.since(self.moment_of(date))
    }

    /// Whether dates have ever gone back: an order of them is then not that of the rows.
    pub fn went_back(&self) -> bool {
        self.went_back
    }

    /// By how much a date of the machine's from the last `time` may be off today, because its clock was set since: whose date
    /// is further than both together from the present was not written within that time.
    pub fn off_within(&self, time: Duration) -> Duration {
        let (begin, mut off, mut end) = (self.moment.before(time).0, 0, i64::MAX);
        let present = self.stretches.last().map_or(0, |last| last.ahead);
        for stretch in self.stretches.iter().rev().take_while(|stretch| {
            let is_within = end > begin;
            end = stretch.since;
            is_within
        }) {
            off = off.max(stretch.ahead.abs_diff(present));
        }
        Duration::from_millis(off)
    }
}

impl From<Timestamp> for Now {
    /// A look at a clock that never jumped.
    fn from(date: Timestamp) -> Now {
        Now { date, moment: Moment(date.0), stretches: Arc::new([ALWAYS]), went_back: false }
    }
}
