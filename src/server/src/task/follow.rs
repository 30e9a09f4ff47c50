//! Following the store's change records: one loop for whatever does.
//!
//! Each consumer has a task of its own, so one that is slow or fails holds back nobody, and a position of its own, which it
//! stores itself: where it dies it goes on from there. The box removes the records that all of them have durably.
//!
//! While another folder stands where the box's data were, or none, nobody takes in anything: what a consumer publishes
//! there would be said to be durable, and lack when the folder is back.

use super::TaskContext;
use base::ids::OrgId;
use base::{Error, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Something that follows the change records. What takes long or touches files runs on a thread that may block.
pub trait Consumer: Send + Sync + 'static {
    /// Stands in `/readyz` and in the metrics: `search`.
    fn name(&self) -> &'static str;

    /// Change records up to this one are of no more use, whatever happens.
    fn durable(&self) -> u64;

    /// Change records up to this one have been taken in.
    fn reached(&self) -> u64;

    /// Rows taken in while it is filled anew and its position stands still; 0 otherwise.
    fn refilled(&self) -> u64 {
        0
    }

    /// How long what changes is gathered before it is taken in; `begun` and `ended` say when that was done the last time.
    fn pause(&self, begun: Instant, ended: Instant) -> Duration;

    /// How soon it is looked after although nothing changes; none: not before something does.
    fn rest(&self) -> Option<Duration>;

    /// Finds out where it stands, and is filled anew from the rows where it cannot go on from there. Before anything is
    /// taken in, each time that following begins.
    fn begin(&self) -> Result<()> {
        Ok(())
    }

    /// Takes in some of what changed behind [`Consumer::reached`]; whether there may be more at once. `stop` says that the
    /// box drains.
    fn take(&self, stop: &dyn Fn() -> bool) -> Result<bool>;

    /// Stores where it stands: when it rested, and at the end.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Removes what it has of an organization that stands behind a fence; gives how many things that were.
    fn forget(&self, org: OrgId) -> Result<u64>;

    /// Makes what it has of an organization out of the rows that a backup has brought back behind its fence
    /// (`SysRead::behind_fence`), before that is taken away. Their changes are told to nobody. May be called again.
    fn recall(&self, org: OrgId) -> Result<()> {
        let _ = org;
        Ok(())
    }
}

/// Follows the changes until the box drains: the activation of a consumer's task.
pub async fn follow(consumer: Arc<dyn Consumer>, context: TaskContext) -> Result<()> {
    let mut sequence = context.system().store().sequence();
    if !is_in_place(&context).await {
        return Ok(());
    }
    blocking(&consumer, |consumer| consumer.begin()).await?;
    loop {
        sequence.borrow_and_update();
        let begun = Instant::now();
        loop {
            if !is_in_place(&context).await {
                return Ok(());
            }
            let context = context.clone();
            if !blocking(&consumer, move |consumer| consumer.take(&|| context.stopping())).await? {
                break;
            }
        }
        let ended = Instant::now();
        if context.stopping() {
            break;
        }
        let rest = consumer.rest();
        tokio::select! {
            () = context.stopped() => break,
            changed = sequence.changed() => if changed.is_err() { break },
            () = tokio::time::sleep(rest.unwrap_or_default()), if rest.is_some() => {
                if !is_in_place(&context).await {
                    return Ok(());
                }
                blocking(&consumer, |consumer| consumer.settle()).await?;
                continue;
            }
        }
        tokio::select! {
            () = context.stopped() => break,
            () = tokio::time::sleep(consumer.pause(begun, ended)) => {}
        }
    }
    match is_in_place(&context).await {
        true => blocking(&consumer, |consumer| consumer.settle()).await,
        false => Ok(()),
    }
}

/// How often a data folder that went away is looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Waits until the data folder is where it was opened; false when the box drains before.
async fn is_in_place(context: &TaskContext) -> bool {
    while context.system().store().check_place().is_err() {
        tokio::select! {
            () = context.stopped() => return false,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
    true
}

async fn blocking<T: Send + 'static>(
    consumer: &Arc<dyn Consumer>,
    run: impl FnOnce(&dyn Consumer) -> Result<T> + Send + 'static,
) -> Result<T> {
    let consumer = Arc::clone(consumer);
    let ran = tokio::task::spawn_blocking(move || run(&*consumer)).await;
    ran.map_err(|e| Error::internal("follow the change records", e))?
}
