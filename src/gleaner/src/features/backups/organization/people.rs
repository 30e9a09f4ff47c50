//! Who is a member again of an organization that comes back.
//!
//! An account of this box wins: whoever has one by the same address is a member again with it, under the password that it has
//! now, and what the organization's rows say of them names it. Whoever has none comes with the account of the backup, whose
//! sessions have ended. Whoever had their account erased since does not come back, and nobody is taken out of another
//! organization.

use crate::features::auth::{USERS, USERS_BY_EMAIL, UserV1};
use crate::features::{account, api_keys};
use base::ids::{OrgId, UserId};
use base::permission::Role;
use base::{Error, Result};
use std::collections::BTreeSet;
use store::{SysRead, SysWrite};
use uuid::Uuid;

/// What becomes of the members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct People {
    /// Accounts of this box: the member's id in the backup, the one here, and the role.
    pub again: Vec<(UserId, UserId, Role)>,
    /// Those that come with the backup's account.
    pub with_account: BTreeSet<UserId>,
    /// Addresses of those that are members of another organization by now.
    pub elsewhere: Vec<String>,
    /// Those that had their account erased.
    pub left: Vec<UserId>,
    /// All that do not come back.
    lost: Vec<UserId>,
}

impl People {
    /// What becomes of these members now. Refuses where nobody would own the organization.
    pub fn of(tx: &SysRead<'_>, members: &[UserV1]) -> Result<People> {
        let mut known = Vec::with_capacity(members.len());
        for member in members {
            let account = match tx.lookup(&USERS, &USERS_BY_EMAIL, member.email.as_str())? {
                Some(account) => Some(account),
                // They have another address by now.
                None => tx.get(&USERS, &member.id)?,
            };
            known.push(account);
        }
        let unknown = members.iter().zip(&known).filter(|(_, account)| account.is_none());
        let left = account::who_left(tx, &unknown.map(|(member, _)| member.id).collect())?;
        let (mut people, mut has_owner) = (People::default(), false);
        for (member, known) in members.iter().zip(known) {
            let Some((_, role)) = member.membership else { continue };
            match known {
                Some(known) if known.membership.is_none() => people.again.push((member.id, known.id, role)),
                Some(_) => {
                    people.elsewhere.push(member.email.clone());
                    people.lost.push(member.id);
                    continue;
                }
                None if left.contains(&member.id) => {
                    people.left.push(member.id);
                    people.lost.push(member.id);
                    continue;
                }
                None => drop(people.with_account.insert(member.id)),
            }
            has_owner |= role == Role::Owner;
        }
        if !has_owner {
            let why = match people.elsewhere.as_slice() {
                [] => "its owners have had their accounts erased".to_owned(),
                elsewhere => format!("these are members of another organization: {}", elsewhere.join(", ")),
            };
            return Err(Error::conflict(format!(
                "nobody would own the organization: {why}. Have an owner leave the other organization first"
            )));
        }
        Ok(people)
    }

    /// Ids of the backup and the ones that stand for them here, where they differ.
    pub fn ids(&self) -> Vec<(Uuid, Uuid)> {
        let differ = self.again.iter().filter(|(then, now, _)| then != now);
        differ.map(|(then, now, _)| (then.0, now.0)).collect()
    }

    /// Makes them members, in the operation that opens the organization.
    pub fn join(&self, tx: &SysWrite<'_>, org: OrgId, members: &[UserV1]) -> Result<()> {
        for (_, now, role) in &self.again {
            let user = tx.require(&USERS, now)?;
            tx.put(&USERS, now, &UserV1 { membership: Some((org, *role)), ..user })?;
        }
        for member in members.iter().filter(|member| self.with_account.contains(&member.id)) {
            tx.insert(&USERS, &member.id, &UserV1 { sessions_valid_from: tx.moment(), ..member.clone() })?;
        }
        for member in &self.lost {
            api_keys::delete_made_by(&tx.org(org), *member)?;
        }
        Ok(())
    }
}
