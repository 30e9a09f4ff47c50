//! What becomes of ticks whose time has come: which fire, which are dropped and why. Pure: the clock is an argument.
//!
//! A tick is late by dates, since it is a date itself: whoever sets the clock forward by a day has the day's ticks come late,
//! as if the box had been off.

use super::rows::{Misfire, ScheduleV1};
use super::times::Times;
use base::clock::Timestamp;
use base::digest::sha256_of;
use base::ids::ScheduleId;
use std::time::Duration;
use uuid::Uuid;

/// A tick that is so late was missed; one that is less so fires as if nothing were.
pub(super) const LATE_MAX: Duration = Duration::from_secs(60);
/// Missed ticks that are written down one by one, the newest; those before them are told together.
const MISSED_ROWS_MAX: usize = 100;
/// Ticks that fire in one step: a minute of a schedule that is due every second.
const FIRES_MAX: usize = 60;

/// Why a tick did not fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dropped {
    /// Another one fires for it.
    MadeUp(Timestamp),
    /// It is older than `catchUpSeconds`.
    TooOld,
    /// The policy is `skip`.
    Missed,
}

/// Ticks that are decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    /// Oldest first.
    pub fire: Vec<Timestamp>,
    pub dropped: Vec<(Timestamp, Dropped)>,
    /// Whether there were more before the first of those dropped, which are not listed.
    pub more_before: bool,
    /// Everything up to here is decided; none where nothing was due.
    pub until: Option<Timestamp>,
}

/// What of a schedule decides.
pub(super) struct Policy<'a> {
    pub id: ScheduleId,
    pub times: &'a Times,
    pub misfire: Misfire,
    pub catch_up: Duration,
    pub jitter: Duration,
}

impl<'a> Policy<'a> {
    pub fn of(row: &ScheduleV1, times: &'a Times) -> Policy<'a> {
        Policy {
            id: row.id,
            times,
            misfire: row.misfire,
            catch_up: Duration::from_secs(row.catch_up_sec),
            jitter: Duration::from_secs(row.jitter_sec.into()),
        }
    }

    /// When the tick of this date is to fire: before the next one's date, so that none overtakes another.
    pub fn due(&self, tick: Timestamp) -> Timestamp {
        if self.jitter.is_zero() {
            return tick;
        }
        let room = self.times.after(tick).map_or(self.jitter, |next| next.since(tick));
        tick.after(jitter(self.id, tick, self.jitter.min(room.saturating_sub(Duration::from_secs(1)))))
    }

    /// What becomes of everything behind `from`.
    pub fn decide(&self, from: Timestamp, now: Timestamp) -> Decision {
        let is_due = |tick: &Timestamp| self.due(*tick) <= now;
        let Some(first) = self.times.after(from).filter(is_due) else { return Decision::default() };
        let is_late = |tick: Timestamp| now.since(self.due(tick)) > LATE_MAX;
        if !is_late(first) {
            let mut fire = vec![first];
            while fire.len() < FIRES_MAX
                && let Some(next) = fire.last().and_then(|last| self.times.after(*last)).filter(is_due)
            {
                fire.push(next);
            }
            return Decision { until: fire.last().copied(), fire, ..Decision::default() };
        }
        let (mut due, is_all) = self.times.newest(from, now, MISSED_ROWS_MAX + FIRES_MAX + 1);
        // The last one may wait for its jitter.
        due.retain(is_due);
        self.catch_up_with(due, !is_all, is_late, now)
    }

    /// The same, where at least the first was missed.
    fn catch_up_with(
        &self,
        due: Vec<Timestamp>,
        more_before: bool,
        is_late: impl Fn(Timestamp) -> bool,
        now: Timestamp,
    ) -> Decision {
        let until = due.last().copied();
        let is_too_old = |tick: Timestamp| now.since(tick) > self.catch_up;
        let (fire, mut dropped): (Vec<_>, Vec<_>) = match (self.misfire, until) {
            (Misfire::RunOnce, Some(last)) if !is_too_old(last) || !is_late(last) => {
                let why = |tick| if is_too_old(tick) { Dropped::TooOld } else { Dropped::MadeUp(last) };
                let others = due.into_iter().filter(|tick| *tick != last);
                (vec![last], others.map(|tick| (tick, why(tick))).collect())
            }
            (Misfire::RunOnce, _) => {
                (Vec::new(), due.into_iter().map(|tick| (tick, Dropped::TooOld)).collect())
            }
            (Misfire::Skip, _) => {
                let (late, fresh): (Vec<_>, Vec<_>) = due.into_iter().partition(|tick| is_late(*tick));
                (fresh, late.into_iter().map(|tick| (tick, Dropped::Missed)).collect())
            }
        };
        let over = dropped.len().saturating_sub(MISSED_ROWS_MAX);
        dropped.drain(..over);
        Decision { fire, dropped, more_before: more_before || over > 0, until }
    }
}

/// By how much a tick is put off: the same each time it is asked for, also after a restart.
fn jitter(schedule: ScheduleId, tick: Timestamp, most: Duration) -> Duration {
    if most.is_zero() {
        return Duration::ZERO;
    }
    let hash = sha256_of(&[Uuid::from(schedule).as_bytes(), &tick.millis().to_be_bytes()]);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.as_ref()[..8]);
    Duration::from_secs(u64::from_be_bytes(bytes) % (most.as_secs() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn policy(times: &Times, misfire: Misfire, catch_up: u64, jitter: u64) -> Policy<'_> {
        let (catch_up, jitter) = (Duration::from_secs(catch_up), Duration::from_secs(jitter));
        Policy { id: ScheduleId::new(), times, misfire, catch_up, jitter }
    }

    const YEAR: u64 = 31_536_000;

    #[test]
    fn what_is_due_in_time_fires_and_nothing_else() {
        let times = Times::read("* * * * *", "UTC").unwrap();
        let policy = policy(&times, Misfire::RunOnce, YEAR, 0);
        let from = date("2026-01-01T00:00:00Z");
        assert_eq!(policy.decide(from, date("2026-01-01T00:00:59Z")), Decision::default());
        let fired = policy.decide(from, date("2026-01-01T00:01:00Z"));
        let first = date("2026-01-01T00:01:00Z");
        assert_eq!(fired, Decision { fire: vec![first], until: Some(first), ..Decision::default() });
        // A little late, and the next one is due as well.
        let both = policy.decide(from, date("2026-01-01T00:02:00Z"));
        assert_eq!(both.fire, [first, date("2026-01-01T00:02:00Z")]);
        assert!(both.dropped.is_empty());
    }

    #[test]
    fn what_was_missed_is_made_up_once_or_dropped() {
        let times = Times::read("0 * * * *", "UTC").unwrap();
        let (from, now) = (date("2026-01-01T00:30:00Z"), date("2026-01-01T04:20:00Z"));
        let last = date("2026-01-01T04:00:00Z");
        let others = ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z", "2026-01-01T03:00:00Z"].map(date);
        let once = policy(&times, Misfire::RunOnce, YEAR, 0).decide(from, now);
        let made_up = |tick| (tick, Dropped::MadeUp(last));
        let dropped = others.map(made_up).to_vec();
        let until = Some(last);
        assert_eq!(once, Decision { fire: vec![last], dropped, more_before: false, until });
        // The newest is 20 minutes old, the one before it 80.
        let within = policy(&times, Misfire::RunOnce, 3_600, 0).decide(from, now);
        assert_eq!(within.fire, [last]);
        assert!(within.dropped.iter().all(|(_, why)| *why == Dropped::TooOld), "{within:?}");
        let too_late = policy(&times, Misfire::RunOnce, 600, 0).decide(from, now);
        assert_eq!((too_late.fire.len(), too_late.dropped.len(), too_late.until), (0, 4, until));
        let skipped = policy(&times, Misfire::Skip, YEAR, 0).decide(from, now);
        assert_eq!((skipped.fire.len(), skipped.dropped.len(), skipped.until), (0, 4, until));
        assert!(skipped.dropped.iter().all(|(_, why)| *why == Dropped::Missed));
    }

    #[test]
    fn a_tick_in_time_makes_up_for_those_before_it() {
        let times = Times::read("0 * * * *", "UTC").unwrap();
        let (from, now) = (date("2026-01-01T00:30:00Z"), date("2026-01-01T03:00:20Z"));
        let last = date("2026-01-01T03:00:00Z");
        let once = policy(&times, Misfire::RunOnce, 0, 0).decide(from, now);
        assert_eq!((once.fire, once.dropped.len()), (vec![last], 2));
        let skip = policy(&times, Misfire::Skip, 0, 0).decide(from, now);
        assert_eq!((skip.fire, skip.dropped.len()), (vec![last], 2));
    }

    #[test]
    fn a_long_time_is_told_in_a_bounded_number_of_rows() {
        let times = Times::read("* * * * * *", "UTC").unwrap();
        for misfire in [Misfire::RunOnce, Misfire::Skip] {
            let policy = policy(&times, misfire, YEAR, 0);
            let (from, now) = (date("2026-01-01"), date("2026-01-04"));
            let decision = policy.decide(from, now);
            assert_eq!((decision.dropped.len(), decision.more_before), (MISSED_ROWS_MAX, true));
            assert_eq!(decision.until, Some(now));
            assert!(decision.fire.len() <= FIRES_MAX + 1 && decision.fire.last() == Some(&now));
            assert_eq!(policy.decide(now, now), Decision::default());
        }
    }

    #[test]
    fn jitter_is_bounded_lasting_and_spread() {
        let times = Times::read("0 * * * *", "UTC").unwrap();
        let policy = policy(&times, Misfire::RunOnce, YEAR, 600);
        let mut seen = std::collections::BTreeSet::new();
        let mut tick = date("2026-01-01");
        for _ in 0..200 {
            tick = times.after(tick).unwrap();
            let due = policy.due(tick);
            assert_eq!(due, policy.due(tick));
            let late = due.since(tick);
            assert!(due >= tick && late <= Duration::from_secs(600));
            seen.insert(late.as_secs());
            // Not before, and not as late.
            let before = tick.before(Duration::from_secs(1));
            assert!(policy.decide(before, due.before(Duration::from_millis(1))).fire.is_empty());
            assert_eq!(policy.decide(before, due).fire, [tick]);
        }
        assert!(seen.len() > 100, "{} different", seen.len());
        let none = Policy { jitter: Duration::ZERO, ..policy };
        assert_eq!(none.due(tick), tick);
    }

    /// Jitter that is longer than the time between two ticks, of fifty schedules.
    #[test]
    fn jitter_lets_no_tick_overtake_another_nor_two_make_up_for_one_time() {
        let minutely = Times::read("* * * * *", "UTC").unwrap();
        for _ in 0..50 {
            let policy = policy(&minutely, Misfire::RunOnce, YEAR, 600);
            let mut tick = date("2026-01-01");
            for _ in 0..20 {
                let next = minutely.after(tick).unwrap();
                assert!(policy.due(tick) < next, "each before the next one's date");
                tick = next;
            }
        }
        let hourly = Times::read("0 * * * *", "UTC").unwrap();
        for _ in 0..50 {
            let policy = policy(&hourly, Misfire::RunOnce, YEAR, 3_600);
            let (off, on) = (date("2026-01-01T00:30:00Z"), date("2026-01-01T05:59:59Z"));
            let decision = policy.decide(off, on);
            assert_eq!(decision.fire, [date("2026-01-01T05:00:00Z")], "the newest makes up for all");
            assert_eq!(decision.dropped.len(), 4);
            assert_eq!(policy.decide(decision.until.unwrap(), on), Decision::default());
        }
    }
}
