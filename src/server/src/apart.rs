//! Work that takes a while of a processor, apart from the threads that answer.
//!
//! The runtime has a thread a core, and what holds one holds up everybody whose request is on it. So what grows with a large
//! body (reading it into values, checking thousands of entries) is done on other threads, as many at a time as there are
//! cores: the kernel shares the processors among all of them, and a small request waits for a time slice and not for
//! somebody's megabytes.

use base::{Error, Result, trace};
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

static PLACES: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(available_parallelism().map_or(2, usize::from))));

/// Runs `work` on another thread, when one of the places is free. What has begun is ended, also when its caller is gone.
pub async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let begin = async {
        let place = Arc::clone(&PLACES).acquire_owned().await;
        let place = place.map_err(|e| Error::internal("wait for a place to work", e))?;
        let placed = move || {
            let done = work();
            drop(place);
            done
        };
        Ok(tokio::task::spawn_blocking(placed))
    };
    on_own_task(begin).await?.await.map_err(|e| Error::internal("work apart", e))
}

/// Waits on a task of its own for something of which the box has few, and begins to use it there. A handler that waited for it
/// itself would get it, and keep it from everybody until the handler's own turn comes (`call/scheduler.rs`). Ends when nobody waits any more.
pub async fn on_own_task<T: Send + 'static>(
    begin: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let mut task = AbortOnDrop(tokio::spawn(trace::carried(begin)));
    (&mut task.0).await.map_err(|e| Error::internal("begin to work", e))?
}

struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// [`apart`] when `is_large`, else at once.
pub async fn apart_if<T: Send + 'static>(
    is_large: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    if is_large { apart(work).await } else { Ok(work()) }
}
