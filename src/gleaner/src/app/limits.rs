//! What the process is allowed by whoever started it.

use base::{Error, Result};
use rustix::process::{Resource, getrlimit};

/// Address space below which the box does not start: it maps its binary and the search index, and a process that may map
/// nothing more is ended in the middle of its work.
const ADDRESS_SPACE_BYTES_MIN: u64 = 1 << 30;

/// Refuses a start with so little address space (`ulimit -v`) that it would end badly, and warns of any limit.
pub(super) fn check_address_space() -> Result<()> {
    let Some(bytes) = getrlimit(Resource::As).current else { return Ok(()) };
    let (mb, mb_min) = (bytes >> 20, ADDRESS_SPACE_BYTES_MIN >> 20);
    if bytes < ADDRESS_SPACE_BYTES_MIN {
        return Err(Error::unavailable(format!(
            "the address space of this process is limited to {mb} MiB, and it needs {mb_min} at least: lift the limit \
             (`ulimit -v unlimited`, or LimitAS=infinity of systemd); it is no measure of the memory that is used"
        )));
    }
    tracing::warn!(
        limit_mb = mb,
        "the address space of this process is limited (ulimit -v); the search index is mapped there and grows"
    );
    Ok(())
}
