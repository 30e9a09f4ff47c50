//! What a value means: pure, with everything that it depends on as an argument.

use super::rows::{BoundV1, ConditionV1, MonitorState, MonitorV1, Operator, OverV1, PastValuesV1};
use base::clock::Moment;
use std::time::Duration;

/// What a run gave.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Measured {
    Value(f64),
    /// It ran, and there was no value; the text says why.
    Nothing(String),
    /// It could not be run.
    Failed(String),
}

/// What follows from it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    pub state: MonitorState,
    pub reason: Option<String>,
    pub value: Option<f64>,
    pub compared_with: Option<f64>,
    pub held: u32,
}

/// Values that are kept of one monitor for the time that it looks back: one for each five-hundredth of it.
const PAST_PARTS: u32 = 500;

impl Operator {
    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Operator::Eq => left == right,
            Operator::Ne => left != right,
            Operator::Lt => left < right,
            Operator::Lte => left <= right,
            Operator::Gt => left > right,
            Operator::Gte => left >= right,
        }
    }
}

/// By how many percent a value has changed. From nothing to something is without bound.
pub(super) fn change(before: f64, now: f64) -> f64 {
    if now == before {
        return 0.0;
    }
    (now - before) / before.abs() * 100.0
}

/// Judges what a run of `row` gave at a moment.
pub(super) fn judge(row: &MonitorV1, past: &PastValuesV1, measured: Measured, now: Moment) -> Verdict {
    let bare = |state, reason| Verdict { state, reason, value: None, compared_with: None, held: 0 };
    let value = match measured {
        Measured::Value(value) => value,
        Measured::Nothing(why) => return bare(MonitorState::NoData, Some(why)),
        Measured::Failed(why) => return bare(MonitorState::Error, Some(why)),
    };
    let ConditionV1 { operator, bound, runs, .. } = &row.condition;
    let compared_with = match bound {
        BoundV1::Threshold(_) => None,
        BoundV1::Change { over: OverV1::Previous, .. } => row.known_value,
        BoundV1::Change { over: OverV1::Seconds(seconds), .. } => past.before(*seconds, now),
    };
    let verdict = Verdict { value: Some(value), compared_with, ..bare(MonitorState::Ok, None) };
    let holds = match (bound, compared_with) {
        (BoundV1::Threshold(threshold), _) => operator.holds(value, *threshold),
        (BoundV1::Change { percent, .. }, Some(before)) => operator.holds(change(before, value), *percent),
        (BoundV1::Change { .. }, None) => {
            let reason = "there is no earlier value yet to compare it with".to_owned();
            return Verdict { reason: Some(reason), ..verdict };
        }
    };
    if !holds {
        return verdict;
    }
    let held = row.held.saturating_add(1);
    if held >= *runs || row.state == MonitorState::Firing {
        return Verdict { state: MonitorState::Firing, held, ..verdict };
    }
    let reason = format!("the condition has held in {held} of {runs} runs");
    Verdict { reason: Some(reason), held, ..verdict }
}

impl PastValuesV1 {
    /// The newest value that is at least so old.
    fn before(&self, seconds: u64, now: Moment) -> Option<f64> {
        let until = now.before(Duration::from_secs(seconds));
        self.values.iter().rev().find(|(at, _)| *at <= until).map(|(_, value)| *value)
    }

    /// Adds a value, and lets go what is of no more use to who looks back for so many seconds.
    pub(super) fn add(&mut self, seconds: u64, now: Moment, value: f64) {
        let span = Duration::from_secs(seconds);
        let until = now.before(span);
        let old = self.values.iter().take_while(|(at, _)| *at <= until).count();
        self.values.drain(..old.saturating_sub(1));
        // Of values that are close to each other the first one stays: it is at least as old as it is asked to be.
        let close = now.before(span / PAST_PARTS);
        if self.values.last().is_none_or(|(at, _)| *at <= close) {
            self.values.push((now, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::monitors::rows::{OnV1, SourceV1, ValueV1};
    use base::clock::Timestamp;
    use base::ids::{MonitorId, ScheduleId, UserId};

    fn monitor(operator: Operator, bound: BoundV1, runs: u32) -> MonitorV1 {
        MonitorV1 {
            id: MonitorId::new(),
            name: "a".into(),
            source: SourceV1::Sql("SELECT 1".into()),
            condition: ConditionV1 { value: ValueV1::Rows, operator, bound, runs },
            on: OnV1::Schedule(ScheduleId::new()),
            is_enabled: true,
            created_by: UserId::new(),
            runs_as: UserId::new(),
            revision: 0,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            state: MonitorState::Ok,
            since: Timestamp(0),
            reason: None,
            last_run_at: None,
            last_value: None,
            compared_with: None,
            known_value: None,
            held: 0,
            missed: 0,
            decided_until: Timestamp(0),
            next_at: None,
            due: None,
        }
    }

    /// Lets a monitor run over these values and gives its states.
    fn states(mut row: MonitorV1, given: &[Option<f64>]) -> Vec<&'static str> {
        let one = |value: &Option<f64>| {
            let measured = value.map_or_else(|| Measured::Nothing("no rows".into()), Measured::Value);
            let verdict = judge(&row, &PastValuesV1::default(), measured, Moment(0));
            (row.state, row.held) = (verdict.state, verdict.held);
            row.known_value = verdict.value.or(row.known_value);
            row.state.name()
        };
        given.iter().map(one).collect()
    }

    #[test]
    fn a_threshold_holds_by_each_operator() {
        for (operator, expected) in [
            (Operator::Lt, ["firing", "ok", "ok"]),
            (Operator::Lte, ["firing", "firing", "ok"]),
            (Operator::Eq, ["ok", "firing", "ok"]),
            (Operator::Ne, ["firing", "ok", "firing"]),
            (Operator::Gte, ["ok", "firing", "firing"]),
            (Operator::Gt, ["ok", "ok", "firing"]),
        ] {
            let row = monitor(operator, BoundV1::Threshold(95.0), 1);
            assert_eq!(states(row, &[Some(94.9), Some(95.0), Some(95.1)]), expected, "{operator:?}");
        }
    }

    #[test]
    fn a_drop_is_seen_against_the_last_known_value() {
        let drop = BoundV1::Change { percent: -30.0, over: OverV1::Previous };
        let row = monitor(Operator::Lte, drop, 1);
        let given =
            [None, Some(100.0), Some(71.0), Some(49.0), None, Some(35.0), Some(34.0), Some(0.0), Some(0.0)];
        let expected = ["no_data", "ok", "ok", "firing", "no_data", "ok", "ok", "firing", "ok"];
        assert_eq!(states(row, &given), expected);
        assert_eq!((change(0.0, 0.0), change(0.0, 3.0), change(-10.0, -5.0)), (0.0, f64::INFINITY, 50.0));
    }

    #[test]
    fn a_condition_that_must_hold_for_a_while_is_not_told_before() {
        let row = monitor(Operator::Gt, BoundV1::Threshold(10.0), 3);
        let given = [11.0, 12.0, 9.0, 11.0, 12.0, 13.0, 14.0, 9.0].map(Some);
        assert_eq!(states(row, &given), ["ok", "ok", "ok", "ok", "ok", "firing", "firing", "ok"]);
    }

    #[test]
    fn values_of_a_while_ago_are_kept_in_bounds_and_found() {
        let (mut past, hour) = (PastValuesV1::default(), 3_600_000);
        // Every minute for three days, looked back upon for six hours.
        for minute in 0..3 * 24 * 60_i64 {
            past.add(6 * 3_600, Moment(minute * 60_000), minute as f64);
            assert!(past.values.len() <= PAST_PARTS as usize + 2, "{} values", past.values.len());
        }
        let now = Moment((3 * 24 * 60 - 1) * 60_000);
        let found = past.before(6 * 3_600, now).unwrap();
        assert!((found - (now.0 - 6 * hour) as f64 / 60_000.0).abs() <= 1.0, "{found}");
        assert_eq!(past.before(30 * 86_400, now), None);
        // One that runs seldom has its one old value.
        let mut seldom = PastValuesV1::default();
        [1, 2, 3].into_iter().for_each(|day| seldom.add(3_600, Moment(day * 24 * hour), day as f64));
        assert_eq!(seldom.before(3_600, Moment(3 * 24 * hour)), Some(2.0));
        assert_eq!(seldom.values.len(), 2);
    }

    #[test]
    fn what_fails_or_gives_nothing_says_so() {
        let mut row = monitor(Operator::Gt, BoundV1::Threshold(0.0), 1);
        row.state = MonitorState::Firing;
        let judged = |measured| judge(&row, &PastValuesV1::default(), measured, Moment(0));
        let failed = judged(Measured::Failed("gone".into()));
        assert_eq!(
            (failed.state, failed.reason.as_deref(), failed.held),
            (MonitorState::Error, Some("gone"), 0)
        );
        assert_eq!(judged(Measured::Nothing("empty".into())).state, MonitorState::NoData);
        let over = BoundV1::Change { percent: 5.0, over: OverV1::Seconds(60) };
        let first =
            judge(&monitor(Operator::Gt, over, 1), &PastValuesV1::default(), Measured::Value(3.0), Moment(0));
        assert_eq!((first.state, first.value, first.reason.is_some()), (MonitorState::Ok, Some(3.0), true));
    }
}
