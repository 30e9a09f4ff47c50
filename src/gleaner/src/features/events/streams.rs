//! How many streams there are at once.

use base::ids::OrgId;
use base::{Code, Error, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Seconds after which who was turned away may ask again.
const RETRY_AFTER: &str = "30";

/// The streams of the box. Hung up in the services.
pub(super) struct Streams {
    per_org: usize,
    most: usize,
    open: Mutex<HashMap<OrgId, usize>>,
}

/// One stream; dropping it gives its place back.
pub(super) struct StreamPlace {
    streams: Arc<Streams>,
    org: OrgId,
}

impl Streams {
    pub fn new(per_org: usize, most: usize) -> Streams {
        Streams { per_org, most, open: Mutex::default() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.open.lock().values().sum()
    }

    /// A place for one more.
    pub fn open(self: &Arc<Streams>, org: OrgId) -> Result<StreamPlace> {
        let full = |message: String| {
            Error::new(Code::RateLimited).message(message).header("retry-after", RETRY_AFTER)
        };
        let mut open = self.open.lock();
        let own = open.get(&org).copied().unwrap_or(0);
        if own >= self.per_org {
            return Err(full(format!(
                "Your organization has {own} streams open, as many as it may. One can carry all kinds of events; a list \
                 of them comes with Accept: application/json."
            )));
        }
        if open.values().sum::<usize>() >= self.most {
            return Err(full("The box has as many streams open as it may; ask again later.".to_owned()));
        }
        open.insert(org, own + 1);
        drop(open);
        Ok(StreamPlace { streams: Arc::clone(self), org })
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut open = self.streams.open.lock();
        match open.get_mut(&self.org) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(open.remove(&self.org)),
        }
    }
}
