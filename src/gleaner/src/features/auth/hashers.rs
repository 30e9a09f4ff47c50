//! Where passwords are hashed: a few threads of low priority, behind a queue that is bounded in length and in time.
//!
//! A hash is 19 MiB and a core for its time, and anybody may ask for one by logging in. So at most two run at once, a
//! bounded number waits a bounded time, and the rest is told to come back. The threads give way to everybody else: a
//! flood of logins takes what the box has left over, and the requests of those who are logged in go before it. That is
//! why they are threads of our own and not the runtime's, whose priority could not be put back.

use base::{Error, Result};
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

const RUNNING_MAX: usize = 2;
const WAITING_MAX: usize = 256;
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Of -20 to 19: where others want the core too, a thread gets about a tenth of what each of them does.
const NICENESS: i32 = 10;

type HashJob = Box<dyn FnOnce() + Send>;

/// The threads, and the queue before them. The threads end when this is dropped.
pub struct Hashers {
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    queue: mpsc::Sender<HashJob>,
    wait_max: Duration,
}

impl Hashers {
    pub fn start() -> Result<Hashers> {
        let (queue, inbox) = mpsc::channel::<HashJob>();
        let inbox = Arc::new(Mutex::new(inbox));
        for n in 0..RUNNING_MAX {
            let inbox = Arc::clone(&inbox);
            std::thread::Builder::new()
                .name(format!("passwords-{n}"))
                .spawn(move || serve(&inbox))
                .map_err(|e| Error::internal("start a thread for passwords", e))?;
        }
        let (running, waiting) = (Semaphore::new(RUNNING_MAX), Semaphore::new(WAITING_MAX));
        Ok(Hashers { running: Arc::new(running), waiting: Arc::new(waiting), queue, wait_max: WAIT_MAX })
    }

    /// Runs `work` when it is its turn; `service_unavailable` when too many wait, or this one waited too long.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let busy = || Error::unavailable("Too many people are logging in at this moment; try again shortly.");
        let place = Arc::clone(&self.waiting).try_acquire_owned().map_err(|_| busy())?;
        let (reply, answer) = oneshot::channel();
        let (running, queue, wait_max) = (Arc::clone(&self.running), self.queue.clone(), self.wait_max);
        server::on_own_task(async move {
            let turn = tokio::time::timeout(wait_max, running.acquire_owned()).await.map_err(|_| busy())?;
            let turn = turn.map_err(|e| Error::internal("wait to hash a password", e))?;
            drop(place);
            let work = Box::new(move || {
                // The turn goes with the work: a caller who hangs up does not make room before the core is free.
                let _turn = turn;
                // Who hung up wants no answer.
                let _ = reply.send(work());
            });
            queue.send(work).map_err(|_| Error::internal("hash a password", "its threads have ended"))
        })
        .await?;
        answer.await.map_err(|_| Error::internal("hash a password", "the work has panicked"))
    }
}

fn serve(inbox: &Mutex<mpsc::Receiver<HashJob>>) {
    if let Err(error) = give_way() {
        tracing::warn!(%error, "the threads that hash passwords run at the priority of all others");
    }
    loop {
        // The one that waits for work holds the lock; the other waits for the lock.
        let work = inbox.lock().recv();
        let Ok(work) = work else { return };
        // The panic was printed; its caller is told by the answer that never comes.
        let _ = catch_unwind(AssertUnwindSafe(work));
    }
}

/// Lowers the priority of the calling thread, and of no other, as Linux has it (setpriority(2)).
fn give_way() -> rustix::io::Result<()> {
    let niceness = rustix::process::getpriority_process(None)?;
    if niceness >= NICENESS { Ok(()) } else { rustix::process::setpriority_process(None, NICENESS) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn at_most_two_hash_at_once() {
        let hashers = Arc::new(Hashers::start().unwrap());
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        // Each waits for another, so that two are at work at the same time.
        let meeting = Arc::new(std::sync::Barrier::new(RUNNING_MAX));
        let tasks: Vec<_> = (0..12)
            .map(|_| {
                let (hashers, now, most) = (hashers.clone(), now.clone(), most.clone());
                let meeting = meeting.clone();
                tokio::spawn(async move {
                    let work = move || {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        meeting.wait();
                        now.fetch_sub(1, Ordering::SeqCst);
                    };
                    hashers.run(work).await
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), RUNNING_MAX);
    }

    #[tokio::test]
    async fn a_full_queue_is_a_503_and_makes_room_again() {
        let hashers = Hashers::start().unwrap();
        let all = hashers.waiting.acquire_many(WAITING_MAX as u32).await.unwrap();
        let refused = hashers.run(|| ()).await.unwrap_err();
        assert_eq!(refused.status(), 503);
        assert!(refused.headers().iter().any(|(name, _)| *name == "retry-after"));
        drop(all);
        assert_eq!(hashers.run(|| 7).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn who_waits_too_long_is_told_to_come_back() {
        let hashers = Hashers { wait_max: Duration::from_millis(1), ..Hashers::start().unwrap() };
        let turns = hashers.running.acquire_many(RUNNING_MAX as u32).await.unwrap();
        assert_eq!(hashers.run(|| ()).await.unwrap_err().status(), 503);
        drop(turns);
    }

    #[tokio::test]
    async fn a_panic_costs_its_caller_alone() {
        let hashers = Hashers::start().unwrap();
        for _ in 0..2 * RUNNING_MAX {
            assert_eq!(hashers.run(|| panic!("on purpose")).await.unwrap_err().status(), 500);
        }
        assert_eq!(hashers.run(|| 7).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn the_threads_give_way_and_the_others_do_not() {
        let niceness = || rustix::process::getpriority_process(None).unwrap();
        let before = niceness();
        let hashers = Hashers::start().unwrap();
        assert_eq!(hashers.run(niceness).await.unwrap(), before.max(NICENESS));
        assert_eq!(niceness(), before);
    }
}
