//! Open files and sockets: as many as the system lets the box have, and some of them kept for its own work.
//!
//! A connection takes a descriptor, and so does everything else: the store, pages, snapshots, SQL workers, what is fetched.
//! Were all of them connections, nothing would work for those who are connected.

use crate::config::Config;
use crate::features;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More are never asked for: a hard limit may be a billion, and programs that close all there might be would take a while.
const DESCRIPTORS_MAX: u64 = 1 << 20;
/// The store, the log, the search index, snapshots, results that are read, listening sockets.
const OWN: u64 = 160;
/// Fewer connections than this are no service; a box with so few descriptors is told so.
const CONNECTIONS_MIN: u64 = 32;

/// Raises the limit of open files to the most that this process may have.
pub(super) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let most = maximum.unwrap_or(DESCRIPTORS_MAX).min(DESCRIPTORS_MAX);
    if current.is_none_or(|current| current >= most) {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum }) {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
}

/// How many connections are served at once: what the configuration says, as far as there are descriptors for them.
pub(super) fn connections_max(config: &Config) -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(DESCRIPTORS_MAX);
    let asked = config.server.max_connections;
    let most = room(limit, reserve(config));
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if asked > most {
        tracing::warn!(
            asked,
            served = most,
            open_files = limit,
            "fewer connections are served than server.max_connections: the limit of open files has no room for more"
        );
    }
    asked.min(most)
}

/// What the box itself takes, with what its slices say that they do.
fn reserve(config: &Config) -> u64 {
    let of_slices = features::ALL.iter().filter_map(|feature| feature.descriptors);
    OWN + of_slices.map(|descriptors| descriptors(config)).sum::<u64>()
}

/// What is left for connections; where that is next to nothing, a quarter.
fn room(limit: u64, reserve: u64) -> u64 {
    match limit.saturating_sub(reserve) {
        most @ CONNECTIONS_MIN.. => most,
        _ => (limit / 4).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_the_box_itself() {
        let two_statements = ("GLEANER_BI__CONCURRENCY".to_owned(), "2".to_owned());
        let usual = reserve(&Config::load(None, [two_statements]).unwrap());
        assert!((400..900).contains(&usual), "{usual}");
        assert_eq!(room(1_024, usual), 1_024 - usual);
        assert_eq!(room(256, usual), 64);
        assert_eq!(room(1, usual), 1);
    }
}
