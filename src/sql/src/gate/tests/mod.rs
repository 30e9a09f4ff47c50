//! What the tests of the gate and of the rules share, and what takes how long to read and to plan.

mod long;
mod nested;
pub(crate) mod world;

use std::time::Duration;

/// What the thread has worked, whoever else is busy on the machine.
pub(super) fn worked() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the thread's times");
    let nanos = times.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("a number");
    Duration::from_nanos(nanos)
}
