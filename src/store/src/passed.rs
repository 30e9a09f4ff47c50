//! What cannot be read, or not be changed, and is passed over: logged once and counted; see `readable.rs`.

use base::{Code, Error, Result};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};

/// Things that the log names; beyond them damage is counted no more.
const NAMED_MAX: usize = 10_000;

/// What was passed over since the start, each thing once.
static PASSED_OVER: AtomicU64 = AtomicU64::new(0);
static NAMED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// How many things could not be read and were passed over since the process began.
pub fn passed_over() -> u64 {
    PASSED_OVER.load(Ordering::Relaxed)
}

/// Notes that something cannot be read, or not be changed, and is passed over.
pub fn pass_over(what: &str, which: impl Display, error: &Error) {
    let is_new = {
        let mut named = NAMED.lock();
        named.len() < NAMED_MAX && named.insert(format!("{what} {which}"))
    };
    let error = error.for_operator();
    if is_new {
        PASSED_OVER.fetch_add(1, Ordering::Relaxed);
        tracing::error!(what, %which, error, "it cannot be read and is passed over; `gleaner doctor` names what is damaged");
    } else {
        tracing::debug!(what, %which, error, "it is passed over once more");
    }
}

/// Whether the error is the thing's own (it is damaged), and not the box's that could not read for the moment.
pub fn is_unreadable(error: &Error) -> bool {
    error.code() == Code::InternalError
}

/// What was read; none where it is there and cannot be read, which is passed over.
pub fn readable<T>(what: &str, which: impl Display, read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(error) if is_unreadable(&error) => {
            pass_over(what, which, &error);
            Ok(None)
        }
        read => read.map(Some),
    }
}
