//! Turns on the threads that answer: whose handler runs next.
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

use crate::call::room::Holder;
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
const HOLDERS_MIN: usize = 256;

/// Who has a turn, who waits for one, and who took how much of late.
pub(crate) struct Turns {
    burst: Duration,
    state: Mutex<State>,
}

struct State {
    free: usize,
    /// Holders with somebody who waits, the next one in front; each stands here once.
    ring: VecDeque<Holder>,
    waiting: HashMap<Holder, VecDeque<Arc<Ticket>>>,
    taken: HashMap<Holder, Taken>,
    /// At so many holders those that have taken nothing of late go.
    sweep_at: usize,
}

/// What a holder took beyond its share, when that was last counted.
struct Taken {
    beyond: Duration,
    counted: Instant,
}

impl Taken {
    /// What is left of it now: a share goes off all the time.
    fn now(&self, now: Instant) -> Duration {
        self.beyond.saturating_sub(now.saturating_duration_since(self.counted) / SHARE_PARTS)
    }
}

/// Somebody who goes on in turns.
struct Ticket(Mutex<Standing>);

enum Standing {
    Waits(Waker),
    /// The turn is there, and not used yet.
    Called,
    /// It was used, or nobody wants it any more.
    Over,
}

impl Turns {
    /// As many turns at once as this machine has cores.
    pub(crate) fn new() -> Arc<Turns> {
        Turns::of(available_parallelism().map_or(2, usize::from), BURST)
    }

    fn of(free: usize, burst: Duration) -> Arc<Turns> {
        let state = State {
            free,
            ring: VecDeque::new(),
            waiting: HashMap::new(),
            taken: HashMap::new(),
            sweep_at: HOLDERS_MIN,
        };
        Arc::new(Turns { burst, state: Mutex::new(state) })
    }

    /// Runs `work`, in turns where its holder takes more than a share.
    pub(crate) fn run<F: Future>(self: &Arc<Turns>, holder: Holder, work: F) -> InTurns<F> {
        InTurns { turns: Arc::clone(self), holder, ticket: None, work }
    }

    /// A ticket for whoever goes on in turns. A turn that is free is given at once, and comes after what is ready already.
    fn enter(&self, holder: Holder, waker: &Waker) -> Option<Arc<Ticket>> {
        let mut state = self.state.lock();
        let beyond = state.taken.get(&holder).map_or(Duration::ZERO, |taken| taken.now(Instant::now()));
        if beyond < self.burst {
            return None;
        }
        if let Some(left) = state.free.checked_sub(1) {
            state.free = left;
            waker.wake_by_ref();
            return Some(Arc::new(Ticket(Mutex::new(Standing::Called))));
        }
        let ticket = Arc::new(Ticket(Mutex::new(Standing::Waits(waker.clone()))));
        let State { ring, waiting, .. } = &mut *state;
        let own = waiting.entry(holder).or_default();
        if own.is_empty() {
            ring.push_back(holder);
        }
        own.push_back(Arc::clone(&ticket));
        Some(ticket)
    }

    /// Gives a turn back, and on to the first of the holder whose round it is.
    fn leave(&self) {
        let called = {
            let mut state = self.state.lock();
            loop {
                let Some(holder) = state.ring.pop_front() else {
                    state.free += 1;
                    return;
                };
                let Some(own) = state.waiting.get_mut(&holder) else { continue };
                let next = own.pop_front();
                if own.is_empty() {
                    state.waiting.remove(&holder);
                } else {
                    state.ring.push_back(holder);
                }
                // One that has gone away left its ticket behind.
                if let Some(waker) = next.and_then(|ticket| ticket.call()) {
                    break waker;
                }
            }
        };
        called.wake();
    }

    /// Counts what a holder took.
    fn count(&self, holder: Holder, took: Duration, now: Instant) {
        let mut state = self.state.lock();
        let beyond = state.taken.get(&holder).map_or(Duration::ZERO, |taken| taken.now(now)) + took;
        // Whoever took very much is not kept waiting for it long after.
        let beyond = beyond.min(self.burst * 2);
        state.taken.insert(holder, Taken { beyond, counted: now });
        if state.taken.len() >= state.sweep_at {
            state.taken.retain(|_, taken| !taken.now(now).is_zero());
            state.sweep_at = HOLDERS_MIN.max(2 * state.taken.len());
        }
    }
}

impl Ticket {
    /// The turn is there: whom to wake, if anybody still waits.
    fn call(&self) -> Option<Waker> {
        let mut standing = self.0.lock();
        match std::mem::replace(&mut *standing, Standing::Over) {
            Standing::Waits(waker) => {
                *standing = Standing::Called;
                Some(waker)
            }
            Standing::Called | Standing::Over => None,
        }
    }

    /// Whether the turn is there; it is then used. Else `waker` is who is woken.
    fn take(&self, waker: &Waker) -> bool {
        let mut standing = self.0.lock();
        match &mut *standing {
            Standing::Called => {
                *standing = Standing::Over;
                true
            }
            Standing::Waits(old) => {
                old.clone_from(waker);
                false
            }
            Standing::Over => false,
        }
    }

    /// Nobody waits with it any more. Whether its turn was there, unused.
    fn abandon(&self) -> bool {
        matches!(std::mem::replace(&mut *self.0.lock(), Standing::Over), Standing::Called)
    }
}

/// Work that goes on in turns; see [`Turns::run`].
pub(crate) struct InTurns<F> {
    turns: Arc<Turns>,
    holder: Holder,
    ticket: Option<Arc<Ticket>>,
    work: F,
}

/// What is run now; counted, and its turn given back, also where it panics.
struct Run<'a> {
    turns: &'a Turns,
    holder: Holder,
    /// What this thread had taken of a processor before.
    before: Duration,
    has_turn: bool,
}

/// What this thread has taken of a processor: while it waits for one, it takes nothing from others.
fn taken_by_thread() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let took = taken_by_thread().saturating_sub(self.before);
        if took >= COUNTED_MIN {
            self.turns.count(self.holder, took, Instant::now());
        }
        if self.has_turn {
            self.turns.leave();
        }
    }
}

impl<F: Future + Unpin> Future for InTurns<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let own = &mut *self;
        let has_turn = match own.ticket.take() {
            Some(ticket) if ticket.take(context.waker()) => true,
            Some(ticket) => {
                own.ticket = Some(ticket);
                return Poll::Pending;
            }
            None => {
                own.ticket = own.turns.enter(own.holder, context.waker());
                if own.ticket.is_some() {
                    return Poll::Pending;
                }
                false
            }
        };
        let _run = Run { turns: &own.turns, holder: own.holder, before: taken_by_thread(), has_turn };
        let work = Pin::new(&mut own.work);
        if has_turn && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
            block_in_place(|| work.poll(context))
        } else {
            work.poll(context)
        }
    }
}

impl<F> Drop for InTurns<F> {
    fn drop(&mut self) {
        if self.ticket.take().is_some_and(|ticket| ticket.abandon()) {
            self.turns.leave();
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

    fn work(turns: &Arc<Turns>, holder: Holder, name: &'static str, seen: &Seen) -> JoinHandle<()> {
        let (turns, seen) = (Arc::clone(turns), Arc::clone(seen));
        tokio::spawn(async move {
            let work = std::pin::pin!(async move { seen.lock().push(name) });
            turns.run(holder, work).await;
        })
    }

    /// Takes the only turn until it is dropped.
    fn take(turns: &Turns) -> Run<'_> {
        let holder = Holder::Org(OrgId::new());
        assert!(turns.enter(holder, Waker::noop()).is_some_and(|ticket| ticket.take(Waker::noop())));
        Run { turns, holder, before: taken_by_thread(), has_turn: true }
    }

    #[tokio::test]
    async fn one_request_of_another_goes_before_the_second_of_many() {
        let (turns, seen) = (Turns::of(1, Duration::ZERO), Seen::default());
        let (many, other) = (Holder::Org(OrgId::new()), Holder::Org(OrgId::new()));
        let taken = take(&turns);
        let mut all: Vec<_> = (0..20).map(|_| work(&turns, many, "many", &seen)).collect();
        yield_now().await;
        all.push(work(&turns, other, "other", &seen));
        yield_now().await;
        assert!(seen.lock().is_empty());
        drop(taken);
        for task in all {
            task.await.unwrap();
        }
        let seen = std::mem::take(&mut *seen.lock());
        assert_eq!((&seen[..3], seen.len()), (&["many", "other", "many"][..], 21));
        let state = turns.state.lock();
        assert_eq!((state.free, state.ring.len(), state.waiting.len()), (1, 0, 0));
    }

    #[tokio::test]
    async fn who_takes_little_waits_for_no_turn_and_who_takes_much_does() {
        let turns = Turns::of(1, BURST);
        let (little, much) = (Holder::Org(OrgId::new()), Holder::Org(OrgId::new()));
        let start = Instant::now();
        turns.count(much, Duration::from_secs(3_600), start);
        turns.count(little, BURST / 2, start);
        assert!(turns.enter(little, Waker::noop()).is_none());
        let ticket = turns.enter(much, Waker::noop()).unwrap();
        assert!(ticket.abandon(), "its turn is there at once where one is free");
        turns.leave();
        // An hour is not paid back for an hour: twice the burst is the most that anybody owes.
        let later = start + BURST * 2 * SHARE_PARTS;
        assert_eq!(turns.state.lock().taken[&much].now(later), Duration::ZERO);
        for _ in 0..HOLDERS_MIN * 4 {
            turns.count(Holder::Org(OrgId::new()), Duration::ZERO, later);
        }
        assert!(turns.state.lock().taken.len() < HOLDERS_MIN);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_waits_for_something_else_keeps_nobody_waiting() {
        let turns = Turns::of(1, Duration::ZERO);
        let holder = Holder::Org(OrgId::new());
        let (sender, receiver) = oneshot::channel::<u8>();
        let waits = {
            let turns = Arc::clone(&turns);
            tokio::spawn(async move { turns.run(holder, receiver).await })
        };
        yield_now().await;
        let seen = Seen::default();
        work(&turns, holder, "own", &seen).await.unwrap();
        sender.send(7).unwrap();
        assert_eq!(waits.await.unwrap(), Ok(7));
        assert_eq!(turns.state.lock().free, 1);
    }

    #[tokio::test]
    async fn who_goes_away_or_panics_takes_no_turn_along() {
        let (turns, seen) = (Turns::of(1, Duration::ZERO), Seen::default());
        let holder = Holder::Org(OrgId::new());
        let taken = take(&turns);
        let (gone, called) = (work(&turns, holder, "gone", &seen), work(&turns, holder, "called", &seen));
        yield_now().await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        drop(taken);
        // It has its turn and has not run yet.
        called.abort();
        let _ = called.await;
        let panics = {
            let turns = Arc::clone(&turns);
            tokio::spawn(
                async move { turns.run(holder, std::pin::pin!(async { panic!("on purpose") })).await },
            )
        };
        assert!(panics.await.is_err());
        tokio::time::timeout(Duration::from_secs(10), work(&turns, holder, "last", &seen))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(seen.lock().last(), Some(&"last"));
        assert_eq!(turns.state.lock().free, 1);
    }
}
