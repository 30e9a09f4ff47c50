//! The operator's kill switches: stored, so that a restart does not switch anything on again, and handed to the workers,
//! which refuse what is off and end what runs.

use super::service::Queries;
use base::audit::Action;
use base::clock::Timestamp;
use base::codec::Record;
use base::ids::OrgId;
use base::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sql::{Fingerprint, KillSwitches};
use std::sync::Arc;
use std::time::SystemTime;
use store::{Event, SysTable, SysWrite, System, readable};

/// Switches that are read at once; an operator sets each by hand.
const SWITCHES_MAX: usize = 10_000;
/// Characters of a reason that are kept.
const REASON_CHARS_MAX: usize = 500;

/// What a switch stops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum KillTarget {
    /// Every statement.
    Box,
    /// Those of one organization, by its id; the operator's socket takes its name too.
    Org(String),
    /// Those of one form, by their fingerprint.
    Statement(String),
}

/// What an operator wants with the switches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum KillSwitchOrder {
    /// Show them, and what runs.
    List,
    /// Switch something off.
    Set { target: KillTarget, reason: String },
    /// Switch it on again.
    Clear { target: KillTarget },
}

/// A switch that is set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KillSwitchV1 {
    /// `box`, `org` or `statement`.
    kind: String,
    /// The organization's id, or the fingerprint; empty for the box.
    value: String,
    reason: String,
    set_at: Timestamp,
}

impl Record for KillSwitchV1 {}

impl KillSwitchV1 {
    /// A switch whose row cannot be read, as far as its key tells: what was switched off stays so.
    fn of_key(key: &str) -> Option<KillSwitchV1> {
        let (kind, value) = key.split_once(' ')?;
        let reason = "its row is damaged; clear it and set it anew".to_owned();
        Some(KillSwitchV1 { kind: kind.to_owned(), value: value.to_owned(), reason, set_at: Timestamp(0) })
    }
}

/// By kind and value.
pub(super) static KILL_SWITCHES: SysTable<String, KillSwitchV1> =
    SysTable::new("bi_kill_switches", "Kill switch");

/// A target whose values have their form.
enum Checked {
    Box,
    Org(OrgId),
    Statement(Fingerprint),
}

impl Checked {
    fn of(target: &KillTarget) -> Result<Checked> {
        Ok(match target {
            KillTarget::Box => Checked::Box,
            KillTarget::Org(id) => Checked::Org(
                id.parse().map_err(|_| Error::invalid("org", "must be an organization's id or name"))?,
            ),
            KillTarget::Statement(fingerprint) => Checked::Statement(
                fingerprint.parse().map_err(|reason: &str| Error::invalid("statement", reason))?,
            ),
        })
    }

    /// Kind and value as they are stored.
    fn parts(&self) -> (&'static str, String) {
        match self {
            Checked::Box => ("box", String::new()),
            Checked::Org(id) => ("org", id.to_string()),
            Checked::Statement(fingerprint) => ("statement", fingerprint.to_string()),
        }
    }

    /// Tells the audit log of whom it concerns.
    fn audit(&self, tx: &SysWrite<'_>, action: Action) -> Result<()> {
        match self {
            Checked::Org(id) => tx.org(*id).audit(Event::new(action).of(*id)),
            Checked::Box => tx.audit(Event::new(action).named("box")),
            Checked::Statement(fingerprint) => tx.audit(Event::new(action).named(fingerprint.to_string())),
        }
    }
}

impl KillSwitchOrder {
    /// The order with an organization's id in the place of whatever the operator called it.
    pub fn with_org(self, find: impl FnOnce(&str) -> Result<OrgId>) -> Result<KillSwitchOrder> {
        let found = |target: KillTarget| match target {
            KillTarget::Org(org) => Ok::<_, Error>(KillTarget::Org(find(&org)?.to_string())),
            other => Ok(other),
        };
        Ok(match self {
            KillSwitchOrder::List => KillSwitchOrder::List,
            KillSwitchOrder::Set { target, reason } => {
                KillSwitchOrder::Set { target: found(target)?, reason }
            }
            KillSwitchOrder::Clear { target } => KillSwitchOrder::Clear { target: found(target)? },
        })
    }
}

/// Does what the operator wants and shows how it is then.
pub async fn kill_switch(system: &System, queries: &Arc<Queries>, order: KillSwitchOrder) -> Result<Value> {
    let (reading, told) = (system.clone(), Arc::clone(queries));
    // Whoever gave the order may be gone by then.
    let reload = move |_| {
        if let Err(error) = load(&reading, &told) {
            tracing::error!(%error, "what is switched off could not be read");
        }
    };
    match order {
        KillSwitchOrder::List => {}
        KillSwitchOrder::Set { target, reason } => {
            let target = Checked::of(&target)?;
            let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
            system
                .write(move |tx| {
                    tx.after_commit(reload);
                    let (kind, value) = target.parts();
                    let row = KillSwitchV1 { kind: kind.to_owned(), value, reason, set_at: tx.now() };
                    tx.put(&KILL_SWITCHES, &key(&row.kind, &row.value), &row)?;
                    target.audit(tx, Action::BiSwitchedOff)
                })
                .await?;
        }
        KillSwitchOrder::Clear { target } => {
            let target = Checked::of(&target)?;
            system
                .write(move |tx| {
                    tx.after_commit(reload);
                    let (kind, value) = target.parts();
                    if !tx.delete(&KILL_SWITCHES, &key(kind, &value))? {
                        return Err(Error::conflict(
                            "it is not switched off; `gleaner admin bi kill-switch list` shows what is",
                        ));
                    }
                    target.audit(tx, Action::BiSwitchedOn)
                })
                .await?;
        }
    }
    let switches = load(system, queries)?;
    Ok(shown(&switches, queries))
}

/// Hands the stored switches to the workers; for the start, and after each change.
pub fn load_kill_switches(system: &System, queries: &Queries) -> Result<()> {
    load(system, queries).map(drop)
}

fn load(system: &System, queries: &Queries) -> Result<Vec<KillSwitchV1>> {
    // Whoever reads last also hands on last.
    let _alone = queries.switching.lock();
    let rows = system.read(|tx| {
        let keys = tx.own_keys(&KILL_SWITCHES, SWITCHES_MAX)?;
        let rows = keys.into_iter().map(|key| {
            let row = readable("a kill switch", &key, tx.get(&KILL_SWITCHES, &key))?.flatten();
            Ok(row.or_else(|| KillSwitchV1::of_key(&key)))
        });
        rows.collect::<Result<Vec<_>>>()
    })?;
    let rows: Vec<KillSwitchV1> = rows.into_iter().flatten().collect();
    let mut switches = KillSwitches::default();
    for row in &rows {
        match row.kind.as_str() {
            "box" => switches.whole_box = true,
            "org" => switches.organizations.extend(row.value.parse::<OrgId>().ok().map(|id| id.0)),
            _ => switches.fingerprints.extend(row.value.parse::<Fingerprint>().ok()),
        }
    }
    queries.workers.switch(switches);
    Ok(rows)
}

fn key(kind: &str, value: &str) -> String {
    format!("{kind} {value}")
}

/// The statements that run, the longest first.
pub(super) fn running(queries: &Queries) -> Vec<Value> {
    let now = SystemTime::now();
    let running = queries.workers.running().into_iter().map(|statement| {
        json!({
            "org": OrgId(statement.organization),
            "query": statement.query_id,
            "statement": statement.fingerprint.to_string(),
            "seconds": now.duration_since(statement.since).map_or(0, |age| age.as_secs()),
        })
    });
    running.collect()
}

fn shown(switches: &[KillSwitchV1], queries: &Queries) -> Value {
    let switches = switches.iter().map(
        |row| json!({ "kind": row.kind, "value": row.value, "reason": row.reason, "setAt": row.set_at }),
    );
    json!({ "switches": switches.collect::<Vec<_>>(), "running": running(queries) })
}
