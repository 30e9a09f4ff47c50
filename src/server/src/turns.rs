//! Turns on the threads that answer: whose handler runs next.
//!
//! The runtime has a thread a core, and runs what is ready in the order in which it became so. Forty large lists that one
//! organization asks for at once would all run before the small request of another that came after them. So what a handler
//! does between two of its waits is done in a turn, and turns go round by holder: an organization, a person, or a stranger's
//! network. A request that waits for something else (the store's writer, a job's end, another machine) has no turn meanwhile
//! and keeps nobody waiting.

use crate::room::Holder;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::available_parallelism;

/// Turns that are taken at once, for each core: one that runs, and one that is about to.
const TURNS_PER_CORE: usize = 2;

/// Who has a turn and who waits for one.
pub(super) struct Turns(Mutex<State>);

struct State {
    free: usize,
    /// Holders with somebody who waits, the next one in front; each stands here once.
    ring: VecDeque<Holder>,
    waiting: HashMap<Holder, VecDeque<Arc<Ticket>>>,
}

/// Somebody who waits.
struct Ticket(Mutex<Standing>);

enum Standing {
    Waits(Waker),
    /// The turn is there, and not used yet.
    Called,
    /// It was used, or nobody wants it any more.
    Over,
}

impl Turns {
    /// As many as this machine's cores take.
    pub(super) fn new() -> Arc<Turns> {
        Turns::of(available_parallelism().map_or(2, usize::from) * TURNS_PER_CORE)
    }

    fn of(free: usize) -> Arc<Turns> {
        Arc::new(Turns(Mutex::new(State { free, ring: VecDeque::new(), waiting: HashMap::new() })))
    }

    /// Runs `work` in turns of the holder's.
    pub(super) fn run<F: Future>(self: &Arc<Turns>, holder: Holder, work: F) -> InTurns<F> {
        InTurns { turns: Arc::clone(self), holder, ticket: None, work }
    }

    /// Takes a turn that is free, or gives a ticket.
    fn enter(&self, holder: Holder, waker: &Waker) -> Option<Arc<Ticket>> {
        let mut state = self.0.lock();
        if let Some(left) = state.free.checked_sub(1) {
            state.free = left;
            return None;
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
            let mut state = self.0.lock();
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

/// Work in turns; see [`Turns::run`].
pub(super) struct InTurns<F> {
    turns: Arc<Turns>,
    holder: Holder,
    ticket: Option<Arc<Ticket>>,
    work: F,
}

/// Gives a turn back also where the work panics.
struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl<F: Future + Unpin> Future for InTurns<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let own = &mut *self;
        match own.ticket.take() {
            None => own.ticket = own.turns.enter(own.holder, context.waker()),
            Some(ticket) if ticket.take(context.waker()) => {}
            waits => own.ticket = waits,
        }
        if own.ticket.is_some() {
            return Poll::Pending;
        }
        let _turn = Turn(&own.turns);
        Pin::new(&mut own.work).poll(context)
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
    fn take(turns: &Turns) -> Turn<'_> {
        assert!(turns.enter(Holder::Org(OrgId::new()), Waker::noop()).is_none());
        Turn(turns)
    }

    #[tokio::test]
    async fn one_request_of_another_goes_before_the_second_of_many() {
        let (turns, seen) = (Turns::of(1), Seen::default());
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
        let state = turns.0.lock();
        assert_eq!((state.free, state.ring.len(), state.waiting.len()), (1, 0, 0));
    }

    #[tokio::test]
    async fn who_waits_for_something_else_keeps_nobody_waiting() {
        let turns = Turns::of(1);
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
        assert_eq!(turns.0.lock().free, 1);
    }

    #[tokio::test]
    async fn who_goes_away_or_panics_takes_no_turn_along() {
        let (turns, seen) = (Turns::of(1), Seen::default());
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
        assert_eq!(turns.0.lock().free, 1);
    }
}
