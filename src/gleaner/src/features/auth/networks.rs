//! The networks from which a person has logged in: what strangers fail at elsewhere does not lock them out there.
//!
//! One row a person, bounded; a network is kept as a hash under the person's id, so that rows of two people cannot be
//! held together.

use base::Result;
use base::clock::{Moment, Timestamp};
use base::codec::Record;
use base::ids::UserId;
use base::network::network_of;
use secrets::{Digest, sha256};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;
use store::{SysRead, SysTable, SysWrite, readable};

/// Networks of one person; one more replaces the one that was used the longest ago. Each is worth ten more guesses in
/// fifteen minutes to whoever has it.
const NETWORKS_PER_USER_MAX: usize = 16;
/// How long a network is the person's after their last login from there.
const REMEMBERED_FOR: Duration = Duration::from_secs(90 * 86_400);
/// A login sooner after the last one than this writes nothing.
const WRITTEN_EVERY: Duration = Duration::from_secs(86_400);

/// Where a person has logged in, the latest last.
#[derive(Clone, Serialize, Deserialize)]
pub struct LoginNetworksV1 {
    pub user: UserId,
    pub networks: Vec<(Digest, Moment)>,
}

impl Record for LoginNetworksV1 {}

pub static LOGIN_NETWORKS: SysTable<UserId, LoginNetworksV1> =
    SysTable::new("login_networks", "Networks of logins");

/// The network that an address counts for, under a name of the counter: whoever has one address of IPv6 has the 2^64 of
/// its network.
pub fn network(counter: &str, ip: IpAddr) -> Digest {
    let octets = match network_of(ip, 32) {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets()[..8].to_vec(),
    };
    sha256(&[counter.as_bytes(), b":", octets.as_slice()].concat())
}

fn key(user: UserId, ip: IpAddr) -> Digest {
    network(&format!("login-ip:{user}"), ip)
}

/// Whether the person has logged in from the address's network lately.
pub fn knows(tx: &SysRead<'_>, user: UserId, ip: IpAddr) -> Result<bool> {
    let Some(row) = tx.get(&LOGIN_NETWORKS, &user)? else { return Ok(false) };
    let key = key(user, ip);
    Ok(row.networks.iter().any(|(known, at)| *known == key && tx.moment().since(*at) < REMEMBERED_FOR))
}

/// The person has proved who they are from there.
pub fn learn(tx: &SysWrite<'_>, user: UserId, ip: IpAddr) -> Result<()> {
    let key = key(user, ip);
    let mut networks = tx.get(&LOGIN_NETWORKS, &user)?.map(|row| row.networks).unwrap_or_default();
    if networks.iter().any(|(known, at)| *known == key && tx.moment().since(*at) < WRITTEN_EVERY) {
        return Ok(());
    }
    networks.retain(|(known, at)| *known != key && tx.moment().since(*at) < REMEMBERED_FOR);
    networks.push((key, tx.moment()));
    let surplus = networks.len().saturating_sub(NETWORKS_PER_USER_MAX);
    tx.put(&LOGIN_NETWORKS, &user, &LoginNetworksV1 { user, networks: networks.split_off(surplus) })
}

/// When the person last logged in from each, the oldest first.
pub fn times_of(tx: &SysRead<'_>, user: UserId) -> Result<Vec<Timestamp>> {
    let row = tx.get(&LOGIN_NETWORKS, &user)?;
    Ok(row.map(|row| row.networks.into_iter().map(|(_, at)| tx.date_of(at)).collect()).unwrap_or_default())
}

/// Removes what is known of a person; how many networks that were.
pub fn forget(tx: &SysWrite<'_>, user: UserId) -> Result<u64> {
    let known =
        readable("networks of logins", user, times_of(tx, user))?.map_or(1, |times| times.len() as u64);
    // It has no index, so what cannot be read goes, too.
    tx.delete(&LOGIN_NETWORKS, &user)?;
    Ok(known)
}
