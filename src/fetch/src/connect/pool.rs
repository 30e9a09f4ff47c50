//! Connections that wait for their next request.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Origin;
use super::connection::{H1, H2, Sender};

/// Idle connections kept to one origin. A site has no more than its politeness allows; a provider has all the jobs that
/// run at once, and each connection that is not kept costs the next one its handshakes.
const IDLE_PER_ORIGIN_MAX: usize = 64;
/// Idle connections kept in all: each holds a file descriptor and some 10 kB.
const IDLE_MAX: usize = 256;
/// The age at which an idle connection is not trusted any more. Common servers close theirs after 5 to 75 s.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// Idle HTTP/1 connections, and the HTTP/2 connection that an origin's requests share.
#[derive(Default)]
pub struct Pool {
    inner: Mutex<PoolInner>,
}

#[derive(Default)]
struct PoolInner {
    idle: HashMap<Origin, Vec<Idle>>,
    idle_count: usize,
    shared: HashMap<Origin, (H2, Instant)>,
    last_id: u64,
}

struct Idle {
    connection: H1,
    peer: SocketAddr,
    since: Instant,
}

impl Pool {
    pub(super) fn next_id(&self) -> u64 {
        let mut inner = self.inner.lock();
        inner.last_id += 1;
        inner.last_id
    }

    /// A connection to `origin` that was alive when last seen, and the address at its other end: the shared one, or the one
    /// that was used last.
    pub(super) fn checkout(&self, origin: &Origin) -> Option<(Sender, SocketAddr)> {
        let mut inner = self.inner.lock();
        if let Some((shared, last_used)) = inner.shared.get_mut(origin) {
            if !shared.sender.is_closed() && last_used.elapsed() < IDLE_TIMEOUT {
                *last_used = Instant::now();
                return Some((Sender::H2(shared.clone()), shared.peer));
            }
            inner.shared.remove(origin);
        }
        let stack = inner.idle.get_mut(origin)?;
        // The stack's top is its youngest: when that is too old, all are.
        let found = stack.pop().filter(|idle| idle.since.elapsed() < IDLE_TIMEOUT);
        if found.is_none() || stack.is_empty() {
            inner.idle.remove(origin);
        }
        inner.recount();
        found.map(|idle| (Sender::H1(idle.connection), idle.peer))
    }

    pub(super) fn keep(&self, origin: Origin, connection: H1, peer: SocketAddr) {
        if connection.sender.is_closed() {
            return;
        }
        let mut inner = self.inner.lock();
        if inner.idle_count >= IDLE_MAX {
            inner.sweep();
        }
        let stack = inner.idle.entry(origin).or_default();
        if stack.len() >= IDLE_PER_ORIGIN_MAX {
            stack.remove(0);
        }
        stack.push(Idle { connection, peer, since: Instant::now() });
        inner.recount();
    }

    pub(super) fn share(&self, origin: Origin, connection: H2) {
        let mut inner = self.inner.lock();
        if inner.shared.len() >= IDLE_MAX {
            inner.sweep();
        }
        inner.shared.insert(origin, (connection, Instant::now()));
    }

    pub(super) fn forget(&self, origin: &Origin, id: u64) {
        let mut inner = self.inner.lock();
        if inner.shared.get(origin).is_some_and(|(shared, _)| shared.id == id) {
            inner.shared.remove(origin);
        }
    }

    #[cfg(test)]
    pub fn idle_count(&self) -> usize {
        self.inner.lock().idle_count
    }
}

impl PoolInner {
    /// At most [`IDLE_MAX`] stacks, so counting afresh is cheaper than being wrong.
    fn recount(&mut self) {
        self.idle_count = self.idle.values().map(Vec::len).sum();
    }

    /// Lets go of what is too old or dead, and of the older half where that frees nothing.
    fn sweep(&mut self) {
        self.idle.retain(|_, stack| {
            stack.retain(|idle| idle.since.elapsed() < IDLE_TIMEOUT && !idle.connection.sender.is_closed());
            !stack.is_empty()
        });
        self.shared.retain(|_, (shared, last_used)| {
            last_used.elapsed() < IDLE_TIMEOUT && !shared.sender.is_closed()
        });
        if self.idle.values().map(Vec::len).sum::<usize>() >= IDLE_MAX {
            let mut ages: Vec<Instant> = self.idle.values().flatten().map(|idle| idle.since).collect();
            ages.sort_unstable();
            let median = ages[ages.len() / 2];
            self.idle.retain(|_, stack| {
                stack.retain(|idle| idle.since > median);
                !stack.is_empty()
            });
        }
        if self.shared.len() >= IDLE_MAX {
            let mut ages: Vec<Instant> = self.shared.values().map(|(_, last_used)| *last_used).collect();
            ages.sort_unstable();
            let median = ages[ages.len() / 2];
            self.shared.retain(|_, (_, last_used)| *last_used > median);
        }
        self.recount();
    }
}
