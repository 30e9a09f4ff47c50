//! Fair turns on the threads that answer: whose handler runs next.
//!
//! The runtime has a thread a core, and runs what is ready in the order in which it became so. Forty large lists that one
//! organization asks for at once would all run before the small request of another that came after them. So the time is counted
//! that handlers take between two of their waits, by holder: an organization, a person, or a stranger's network. Who takes more
//! than a share goes on in turns, of which there are few at once and which go round by holder; everybody else runs at once. A
//! request that waits for something else (the store's writer, a job's end, another machine) has no turn meanwhile and keeps
//! nobody waiting.
//!
//! A turn lasts from when it is given until what it was given for has run, and not only while that runs: of those that run there
//! are never more than threads, and the ones that are ready behind them are what others wait for. And what runs in a turn gives
//! its thread's other tasks to another thread first: the kernel shares the processors, and a small request waits for a time slice
//! and not for the end of somebody's page. (`cargo bench --bench neighbours -- lists`: p50 of a neighbour 36 ms without turns.)
//!
//! `base::line` gives places by turns too, and would do for this but for its price: it is for what takes seconds, searches all who
//! wait at each turn and sets a timer for each.

use crate::call::body_budget::FairnessKey;
use nix::time::{ClockId, clock_gettime};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// What takes less between two waits holds nobody up, and is not counted.
const COUNTED_MIN: Duration = Duration::from_micros(200);
/// Who has taken so much more than a share goes on in turns.
const BURST: Duration = Duration::from_millis(20);
/// A share is one of so many parts of a core.
const SHARE_PARTS: u32 = 4;
/// From so many holders on those that have taken nothing of late are forgotten.
const KEYS_MIN: usize = 256;

/// Who has a turn, who waits for one, and who took how much of late.
pub(crate) struct FairScheduler {
    burst: Duration,
    state: Mutex<SchedulerState>,
}

struct SchedulerState {
    free: usize,
    /// Holders with somebody who waits, the next one in front; each stands here once.
    ring: VecDeque<FairnessKey>,
    waiting: HashMap<FairnessKey, VecDeque<Arc<Waiter>>>,
    taken: HashMap<FairnessKey, Usage>,
    /// At so many holders those that have taken nothing of late go.
    sweep_at: usize,
}

/// What a holder took beyond its share, when that was last counted.
struct Usage {
    beyond: Duration,
    counted: Instant,
}

impl Usage {
    /// What is left of it now: a share goes off all the time.
    fn now(&self, now: Instant) -> Duration {
        self.beyond.saturating_sub(now.saturating_duration_since(self.counted) / SHARE_PARTS)
    }
}

/// Somebody who goes on in turns.
struct Waiter(Mutex<WaiterState>);

enum WaiterState {
    Waits(Waker),
    /// The turn is there, and not used yet.
    Called,
    /// It was used, or nobody wants it any more.
    Over,
}

impl FairScheduler {
    /// As many turns at once as this machine has cores.
    pub(crate) fn new() -> Arc<FairScheduler> {
        FairScheduler::of(available_parallelism().map_or(2, usize::from), BURST)
    }

    fn of(free: usize, burst: Duration) -> Arc<FairScheduler> {
        let state = SchedulerState {
            free,
            ring: VecDeque::new(),
            waiting: HashMap::new(),
            taken: HashMap::new(),
            sweep_at: KEYS_MIN,
        };
        Arc::new(FairScheduler { burst, state: Mutex::new(state) })
    }

    /// Runs `work`, in turns where its holder takes more than a share.
    pub(crate) fn run<F: Future>(self: &Arc<FairScheduler>, key: FairnessKey, work: F) -> Scheduled<F> {
        Scheduled { scheduler: Arc::clone(self), key, counted_min: COUNTED_MIN, waiter: None, work }
    }

    /// Runs one of the many small parts of something long, each of which counts, however short it is: two hundred streams
    /// that read on in a log, a tenth of a millisecond at a time, kept everybody else waiting for seconds.
    pub(crate) fn run_part<F: Future>(self: &Arc<FairScheduler>, key: FairnessKey, work: F) -> Scheduled<F> {
        Scheduled { scheduler: Arc::clone(self), key, counted_min: Duration::ZERO, waiter: None, work }
    }

    /// A ticket for whoever goes on in turns. A turn that is free is given at once, and comes after what is ready already.
    fn enter(&self, key: FairnessKey, waker: &Waker) -> Option<Arc<Waiter>> {
        let mut state = self.state.lock();
        let beyond = state.taken.get(&key).map_or(Duration::ZERO, |taken| taken.now(Instant::now()));
        if beyond < self.burst {
            return None;
        }
        if let Some(left) = state.free.checked_sub(1) {
            state.free = left;
            waker.wake_by_ref();
            return Some(Arc::new(Waiter(Mutex::new(WaiterState::Called))));
        }
        let waiter = Arc::new(Waiter(Mutex::new(WaiterState::Waits(waker.clone()))));
        let SchedulerState { ring, waiting, .. } = &mut *state;
        let own = waiting.entry(key).or_default();
        if own.is_empty() {
            ring.push_back(key);
        }
        own.push_back(Arc::clone(&waiter));
        Some(waiter)
    }

    /// Gives a turn back, and on to the first of the holder whose round it is.
    fn leave(&self) {
        let called = {
            let mut state = self.state.lock();
            loop {
                let Some(key) = state.ring.pop_front() else {
                    state.free += 1;
                    return;
                };
                let Some(own) = state.waiting.get_mut(&key) else { continue };
                let next = own.pop_front();
                if own.is_empty() {
                    state.waiting.remove(&key);
                } else {
                    state.ring.push_back(key);
                }
                // One that has gone away left its ticket behind.
                if let Some(waker) = next.and_then(|waiter| waiter.call()) {
                    break waker;
                }
            }
        };
        called.wake();
    }

    /// Counts what a holder took.
    fn count(&self, key: FairnessKey, took: Duration, now: Instant) {
        let mut state = self.state.lock();
        let beyond = state.taken.get(&key).map_or(Duration::ZERO, |taken| taken.now(now)) + took;
        // Whoever took very much is not kept waiting for it long after.
        let beyond = beyond.min(self.burst * 2);
        state.taken.insert(key, Usage { beyond, counted: now });
        if state.taken.len() >= state.sweep_at {
            state.taken.retain(|_, taken| !taken.now(now).is_zero());
            state.sweep_at = KEYS_MIN.max(2 * state.taken.len());
        }
    }
}

impl Waiter {
    /// The turn is there: whom to wake, if anybody still waits.
    fn call(&self) -> Option<Waker> {
        let mut state = self.0.lock();
        match std::mem::replace(&mut *state, WaiterState::Over) {
            WaiterState::Waits(waker) => {
                *state = WaiterState::Called;
                Some(waker)
            }
            WaiterState::Called | WaiterState::Over => None,
        }
    }

    /// Whether the turn is there; it is then used. Else `waker` is who is woken.
    fn take(&self, waker: &Waker) -> bool {
        let mut state = self.0.lock();
        match &mut *state {
            WaiterState::Called => {
                *state = WaiterState::Over;
                true
            }
            WaiterState::Waits(old) => {
                old.clone_from(waker);
                false
            }
            WaiterState::Over => false,
        }
    }

    /// Nobody waits with it any more. Whether its turn was there, unused.
    fn abandon(&self) -> bool {
        matches!(std::mem::replace(&mut *self.0.lock(), WaiterState::Over), WaiterState::Called)
    }
}

/// Work that goes on in turns; see [`FairScheduler::run`].
pub(crate) struct Scheduled<F> {
    scheduler: Arc<FairScheduler>,
    key: FairnessKey,
    /// What takes less is not counted.
    counted_min: Duration,
    waiter: Option<Arc<Waiter>>,
    work: F,
}

/// What is run now; counted, and its turn given back, also where it panics.
struct RunGuard<'a> {
    scheduler: &'a FairScheduler,
    key: FairnessKey,
    counted_min: Duration,
    /// What this thread had taken of a processor before.
    before: Duration,
    has_turn: bool,
}

/// What this thread has taken of a processor: while it waits for one, it takes nothing from others.
fn taken_by_thread() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

impl Drop for RunGuard<'_> {
    fn drop(&mut self) {
        let took = taken_by_thread().saturating_sub(self.before);
        if took >= self.counted_min {
            self.scheduler.count(self.key, took, Instant::now());
        }
        if self.has_turn {
            self.scheduler.leave();
        }
    }
}

impl<F: Future + Unpin> Future for Scheduled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let own = &mut *self;
        let has_turn = match own.waiter.take() {
            Some(waiter) if waiter.take(context.waker()) => true,
            Some(waiter) => {
                own.waiter = Some(waiter);
                return Poll::Pending;
            }
            None => {
                own.waiter = own.scheduler.enter(own.key, context.waker());
                if own.waiter.is_some() {
                    return Poll::Pending;
                }
                false
            }
        };
        let _run = RunGuard {
            scheduler: &own.scheduler,
            key: own.key,
            counted_min: own.counted_min,
            before: taken_by_thread(),
            has_turn,
        };
        let work = Pin::new(&mut own.work);
        if has_turn && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
            block_in_place(|| work.poll(context))
        } else {
            work.poll(context)
        }
    }
}

impl<F> Drop for Scheduled<F> {
    fn drop(&mut self) {
        if self.waiter.take().is_some_and(|waiter| waiter.abandon()) {
            self.scheduler.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ids::OrgId;
    use std::time::Duration;
    use tokio::sync::oneshot;
    use tokio::task::{JoinHandle, yield_now};

    type Seen = Arc<Mutex<Vec<&'static str>>>;

    fn work(
        scheduler: &Arc<FairScheduler>,
        key: FairnessKey,
        name: &'static str,
        seen: &Seen,
    ) -> JoinHandle<()> {
        let (scheduler, seen) = (Arc::clone(scheduler), Arc::clone(seen));
        tokio::spawn(async move {
            let work = std::pin::pin!(async move { seen.lock().push(name) });
            scheduler.run(key, work).await;
        })
    }

    /// Takes the only turn until it is dropped.
    fn take(scheduler: &FairScheduler) -> RunGuard<'_> {
        let key = FairnessKey::Org(OrgId::new());
        assert!(scheduler.enter(key, Waker::noop()).is_some_and(|waiter| waiter.take(Waker::noop())));
        RunGuard { scheduler, key, counted_min: COUNTED_MIN, before: taken_by_thread(), has_turn: true }
    }

    #[tokio::test]
    async fn one_request_of_another_goes_before_the_second_of_many() {
        let (scheduler, seen) = (FairScheduler::of(1, Duration::ZERO), Seen::default());
        let (many, other) = (FairnessKey::Org(OrgId::new()), FairnessKey::Org(OrgId::new()));
        let taken = take(&scheduler);
        let mut all: Vec<_> = (0..20).map(|_| work(&scheduler, many, "many", &seen)).collect();
        yield_now().await;
        all.push(work(&scheduler, other, "other", &seen));
        yield_now().await;
        assert!(seen.lock().is_empty());
        drop(taken);
        for task in all {
            task.await.unwrap();
        }
        let seen = std::mem::take(&mut *seen.lock());
        assert_eq!((&seen[..3], seen.len()), (&["many", "other", "many"][..], 21));
        let state = scheduler.state.lock();
        assert_eq!((state.free, state.ring.len(), state.waiting.len()), (1, 0, 0));
    }

    #[tokio::test]
    async fn who_takes_little_waits_for_no_turn_and_who_takes_much_does() {
        let scheduler = FairScheduler::of(1, BURST);
        let (little, much) = (FairnessKey::Org(OrgId::new()), FairnessKey::Org(OrgId::new()));
        let start = Instant::now();
        scheduler.count(much, Duration::from_secs(3_600), start);
        scheduler.count(little, BURST / 2, start);
        assert!(scheduler.enter(little, Waker::noop()).is_none());
        let waiter = scheduler.enter(much, Waker::noop()).unwrap();
        assert!(waiter.abandon(), "its turn is there at once where one is free");
        scheduler.leave();
        // An hour is not paid back for an hour: twice the burst is the most that anybody owes.
        let later = start + BURST * 2 * SHARE_PARTS;
        assert_eq!(scheduler.state.lock().taken[&much].now(later), Duration::ZERO);
        for _ in 0..KEYS_MIN * 4 {
            scheduler.count(FairnessKey::Org(OrgId::new()), Duration::ZERO, later);
        }
        assert!(scheduler.state.lock().taken.len() < KEYS_MIN);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_waits_for_something_else_keeps_nobody_waiting() {
        let scheduler = FairScheduler::of(1, Duration::ZERO);
        let key = FairnessKey::Org(OrgId::new());
        let (sender, receiver) = oneshot::channel::<u8>();
        let waits = {
            let scheduler = Arc::clone(&scheduler);
            tokio::spawn(async move { scheduler.run(key, receiver).await })
        };
        yield_now().await;
        let seen = Seen::default();
        work(&scheduler, key, "own", &seen).await.unwrap();
        sender.send(7).unwrap();
        assert_eq!(waits.await.unwrap(), Ok(7));
        assert_eq!(scheduler.state.lock().free, 1);
    }

    #[tokio::test]
    async fn who_goes_away_or_panics_takes_no_turn_along() {
        let (scheduler, seen) = (FairScheduler::of(1, Duration::ZERO), Seen::default());
        let key = FairnessKey::Org(OrgId::new());
        let taken = take(&scheduler);
        let (gone, called) = (work(&scheduler, key, "gone", &seen), work(&scheduler, key, "called", &seen));
        yield_now().await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        drop(taken);
        // It has its turn and has not run yet.
        called.abort();
        let _ = called.await;
        let panics = {
            let scheduler = Arc::clone(&scheduler);
            tokio::spawn(
                async move { scheduler.run(key, std::pin::pin!(async { panic!("on purpose") })).await },
            )
        };
        assert!(panics.await.is_err());
        tokio::time::timeout(Duration::from_secs(10), work(&scheduler, key, "last", &seen))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(seen.lock().last(), Some(&"last"));
        assert_eq!(scheduler.state.lock().free, 1);
    }
}
