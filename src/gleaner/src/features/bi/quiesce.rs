//! Waiting until what is under way has ended.

use base::{Error, Result};
use std::time::{Duration, Instant};

/// How long an erasure waits for statements to end; a worker is killed within a fraction of that.
const END_WAIT: Duration = Duration::from_secs(20);
const END_POLL: Duration = Duration::from_millis(20);

/// Waits until nothing is under way any more; `under_way` tells it to end and says whether something is.
pub(super) async fn ended(under_way: impl Fn() -> bool) -> Result<()> {
    let deadline = Instant::now() + END_WAIT;
    while under_way() {
        if Instant::now() > deadline {
            return Err(Error::unavailable("statements of the organization have not ended yet"));
        }
        tokio::time::sleep(END_POLL).await;
    }
    Ok(())
}
