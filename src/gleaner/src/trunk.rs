//! What is the box's own and no slice's: its table, and what its seals are worth.

use base::codec::Record;
use secrets::keyring::{Keyring, Purpose, StampCheck};
use serde::{Deserialize, Serialize};
use store::{AnyTable, SealCheck, SysTable};

/// What the write of the newest start left.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct SelfTestV1 {
    pub nonce: [u8; 16],
}

impl Record for SelfTestV1 {}

/// One row, written by each start.
pub(crate) static SELF_TEST: SysTable<(), SelfTestV1> = SysTable::new("self_test", "Self-test");

/// The tables of the trunk's own, for what goes through all of them.
pub static TABLES: &[&dyn AnyTable] = &[&SELF_TEST];

/// What the seal on the end of an audit chain is worth.
pub(crate) fn check_seal(keyring: &Keyring, head: &[u8], seal: &[u8]) -> SealCheck {
    match keyring.check_stamp(Purpose::AuditHead, head, seal) {
        StampCheck::Newest => SealCheck::Current,
        StampCheck::Older => SealCheck::Older,
        StampCheck::UnknownKey(key) => SealCheck::UnknownKey(key.to_string()),
        StampCheck::Wrong => SealCheck::Wrong,
    }
}
