//! Waking whoever waits for news of one organization.
//!
//! An operation that writes something for which others may wait rings its organization's bell, which sounds once the
//! operation is committed. So a thousand listeners wait for what concerns them and for nothing else: nobody looks again and
//! again, and the commits of others wake nobody.

use base::ids::OrgId;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use tokio::sync::watch;

/// The bells for which somebody waits.
#[derive(Default)]
pub(super) struct Bells(Mutex<HashMap<OrgId, watch::Sender<u64>>>);

/// Sounds after each commit that rang it. What rang before it was listened to is heard once.
pub type Bell = watch::Receiver<u64>;

impl Bells {
    pub(super) fn listen(&self, org: OrgId) -> Bell {
        self.0.lock().entry(org).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    pub(super) fn ring(&self, orgs: &BTreeSet<OrgId>) {
        let mut bells = self.0.lock();
        for org in orgs {
            let Some(bell) = bells.get(org) else { continue };
            if bell.receiver_count() == 0 {
                bells.remove(org);
            } else {
                bell.send_modify(|rung| *rung = rung.wrapping_add(1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fault::FaultyDisk;
    use crate::{MIGRATIONS, Store};
    use base::clock::Clock;
    use base::ids::OrgId;
    use base::{Code, Error, Result};

    #[tokio::test]
    async fn a_bell_sounds_after_the_commit_and_for_its_organization_alone() {
        let store = Store::open_backend(|| FaultyDisk::new().backend(), Clock::system(), MIGRATIONS).unwrap();
        let (own, other) = (OrgId::new(), OrgId::new());
        let (own, other) = (store.system().org(own), store.system().org(other));
        let (mut bell, mut second, silent) = (own.bell(), own.bell(), other.bell());
        own.write(|tx| {
            tx.ring();
            tx.ring();
            Ok(())
        })
        .await
        .unwrap();
        bell.changed().await.unwrap();
        second.changed().await.unwrap();
        assert!(!bell.has_changed().unwrap(), "once for one operation");
        let refused: Result<()> = own
            .write(|tx| {
                tx.ring();
                Err(Error::new(Code::Conflict))
            })
            .await;
        assert!(refused.is_err() && !bell.has_changed().unwrap(), "nothing was written");
        assert!(!silent.has_changed().unwrap(), "another's");
        drop((bell, second));
        own.write(|tx| {
            tx.ring();
            Ok(())
        })
        .await
        .unwrap();
        assert_eq!(store.inner.bells.0.lock().len(), 1, "nobody listens to it any more");
    }
}
