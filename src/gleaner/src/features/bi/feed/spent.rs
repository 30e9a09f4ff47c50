//! What the feed's work costs, for whoever looks after the box.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// CPU time of one kind of work, which is done on threads that do other things as well.
#[derive(Default)]
pub(super) struct Spent(AtomicU64);

impl Spent {
    /// Runs `work` and counts what it takes of this thread.
    pub(super) fn count<T>(&self, work: impl FnOnce() -> T) -> T {
        let (cpu, begun) = (thread_cpu(), Instant::now());
        let done = work();
        let taken = match cpu.zip(thread_cpu()) {
            Some((before, after)) => after.saturating_sub(before),
            // Where the kernel does not tell, the time that it took is an upper bound.
            None => begun.elapsed(),
        };
        self.0.fetch_add(u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        done
    }

    pub(super) fn so_far(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// CPU time of this thread (proc(5), `schedstat`: the first number, in nanoseconds).
fn thread_cpu() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted() {
        let spent = Spent::default();
        let mut rounds = 0_u64;
        // However coarse the kernel counts, something is counted some time.
        while spent.so_far().is_zero() {
            rounds += spent.count(|| (0..10_000_u64).map(std::hint::black_box).sum::<u64>() / 49_995_000);
        }
        assert!(rounds > 0);
        let before = spent.so_far();
        assert_eq!(spent.count(|| 7), 7);
        assert!(spent.so_far() >= before);
    }
}
