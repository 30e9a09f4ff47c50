//! What takes long, in the log: which of it is told, so that a flood of slow things does not become one of lines.
//!
//! All of it is counted. Of each span of time a few lines are written, and fewer of one organization, so that one that is slow all the
//! time does not hide what others wait for. What was left out is said with the next line.

use crate::metrics::{Counter, Metrics};
use base::ids::OrgId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Lines of one kind within [`WINDOW`], and of one organization (or of callers without one).
const LINES_MAX: usize = 20;
const LINES_OF_ONE_MAX: usize = 5;
const WINDOW: Duration = Duration::from_secs(10);

/// What is slow of one kind, as in requests.
pub struct SlowLines {
    /// What takes as long is slow; none: nothing is.
    over: Option<Duration>,
    counter: Counter,
    window: Mutex<Window>,
}

struct Window {
    since: Instant,
    written: usize,
    of_one: HashMap<Option<OrgId>, usize>,
    left_out: u64,
}

/// A line that is to be written.
#[derive(Debug, PartialEq, Eq)]
pub struct SlowLine {
    /// How many were left out since the last one.
    pub left_out: u64,
}

impl SlowLines {
    /// What takes `over` or longer is told; zero: nothing is. `name` and `help` are the metric's.
    pub fn new(metrics: &Metrics, name: &'static str, help: &'static str, over: Duration) -> SlowLines {
        SlowLines {
            over: Some(over).filter(|over| !over.is_zero()),
            counter: metrics.counter(name, help, &[]),
            window: Mutex::new(Window::begun(Instant::now(), 0)),
        }
    }

    /// Something of an organization's took so long. Whether a line of it is to be written.
    pub fn took(&self, took: Duration, org: Option<OrgId>) -> Option<SlowLine> {
        if took < self.over? {
            return None;
        }
        self.counter.inc();
        self.window.lock().admit(org, Instant::now())
    }
}

impl Window {
    fn begun(since: Instant, left_out: u64) -> Window {
        Window { since, written: 0, of_one: HashMap::new(), left_out }
    }

    fn admit(&mut self, org: Option<OrgId>, now: Instant) -> Option<SlowLine> {
        if now.saturating_duration_since(self.since) >= WINDOW {
            *self = Window::begun(now, self.left_out);
        }
        let own = self.of_one.get(&org).copied().unwrap_or_default();
        if self.written >= LINES_MAX || own >= LINES_OF_ONE_MAX {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        // No more entries than lines.
        self.of_one.insert(org, own + 1);
        Some(SlowLine { left_out: std::mem::take(&mut self.left_out) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_few_and_nobody_has_all_of_them() {
        let begun = Instant::now();
        let mut window = Window::begun(begun, 0);
        let (one, other) = (Some(OrgId::new()), Some(OrgId::new()));
        let admitted = (0..100).filter(|_| window.admit(one, begun).is_some()).count();
        assert_eq!(admitted, LINES_OF_ONE_MAX);
        assert_eq!(window.admit(other, begun), Some(SlowLine { left_out: 95 }));
        let admitted = (0..100).filter(|_| window.admit(Some(OrgId::new()), begun).is_some()).count();
        assert_eq!(admitted, LINES_MAX - LINES_OF_ONE_MAX - 1);
        assert!(window.of_one.len() <= LINES_MAX);
        assert_eq!(window.admit(other, begun), None);
        let next = begun + WINDOW;
        assert_eq!(window.admit(one, next), Some(SlowLine { left_out: 87 }));
        assert_eq!(window.admit(one, next), Some(SlowLine { left_out: 0 }));
    }

    #[test]
    fn what_is_fast_or_not_asked_for_is_not_told() {
        let metrics = Metrics::new();
        let lines = SlowLines::new(&metrics, "slow_total", "Slow.", Duration::from_millis(10));
        assert_eq!(lines.took(Duration::from_millis(9), None), None);
        assert!(lines.took(Duration::from_millis(10), None).is_some());
        assert!(metrics.render().contains("slow_total 1\n"));
        let off = SlowLines::new(&metrics, "off_total", "Off.", Duration::ZERO);
        assert_eq!(off.took(Duration::from_secs(10_000), None), None);
    }
}
