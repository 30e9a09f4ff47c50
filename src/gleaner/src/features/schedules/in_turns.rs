//! Work of tasks that takes its time, in turns over the organizations: one thing of each at a time, so many organizations at
//! once. Whoever has much to do, or something slow, keeps nobody else waiting.

use super::task::{Turns, turns};
use base::Result;
use base::clock::Timestamp;
use base::ids::OrgId;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use server::task::TaskContext;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Organizations that have something under way at once.
const ORGS_AT_ONCE: usize = 64;
/// How often it is looked who has something to do meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Things that wait, by organization; whoever was served last comes last.
struct Waiting<K> {
    all: Turns<K>,
    last: Option<OrgId>,
}

impl<K> Waiting<K> {
    /// The next thing of the next organization that has none under way.
    fn next(&mut self, busy: &HashSet<OrgId>) -> Option<(OrgId, K)> {
        let behind = self.all.keys().filter(|org| self.last.is_none_or(|last| **org > last));
        let org = behind.chain(self.all.keys()).find(|org| !busy.contains(org)).copied()?;
        let own = self.all.get_mut(&org)?;
        let key = own.pop_front()?;
        if own.is_empty() {
            self.all.remove(&org);
        }
        self.last = Some(org);
        Some((org, key))
    }
}

/// Does what `find` finds, until that is nothing. What was done must not be found again, or rest in between.
pub async fn in_turns<K, F: Future<Output = ()>>(
    context: &TaskContext,
    find: impl Fn() -> Result<Vec<(OrgId, K, Option<Timestamp>)>>,
    act: impl Fn(OrgId, K) -> F,
) -> Result<()> {
    let (mut waiting, mut busy) = (Waiting { all: Turns::new(), last: None }, HashSet::new());
    let (mut acts, mut looked) = (FuturesUnordered::new(), None::<Instant>);
    while !context.stopping() {
        if looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY) || waiting.all.is_empty() {
            let mut found = find()?;
            found.retain(|(org, ..)| !busy.contains(org));
            waiting.all = turns(found);
            looked = Some(Instant::now());
        }
        while acts.len() < ORGS_AT_ONCE
            && let Some((org, key)) = waiting.next(&busy)
        {
            busy.insert(org);
            let act = act(org, key);
            acts.push(async move {
                act.await;
                org
            });
        }
        if acts.is_empty() {
            return Ok(());
        }
        if let Ok(Some(org)) = tokio::time::timeout(LOOK_EVERY, acts.next()).await {
            busy.remove(&org);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn organizations_come_in_turn_and_each_has_one_thing_at_a_time() {
        let (first, second) = (OrgId::new(), OrgId::new());
        let found = [(first, 1), (first, 2), (second, 3)].map(|(org, key)| (org, key, None)).to_vec();
        let mut waiting = Waiting { all: turns(found), last: None };
        let mut busy = HashSet::new();
        assert_eq!(waiting.next(&busy), Some((first, 1)));
        busy.insert(first);
        assert_eq!(waiting.next(&busy), Some((second, 3)));
        busy.insert(second);
        assert_eq!(waiting.next(&busy), None);
        busy.clear();
        assert_eq!(waiting.next(&busy), Some((first, 2)));
        assert!(waiting.all.is_empty());
    }
}
