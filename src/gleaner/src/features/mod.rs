//! The slices: each capability in one place, and the list of them.
//!
//! A slice is data to the trunk: its routes, its background work, the parts it opens and needs, what the SQL console sees
//! of its rows, what it shows the operator. Adding one touches its own folder, a line in [`ALL`] and its test module.
//!
//! Whatever a slice holds on a person, and whatever it keeps of an organization outside of the store, it names in
//! `personal` and `holdings`: exports show it and erasures remove it. Rows of an organization need no naming.

pub mod account;
pub mod agents;
pub mod analytics;
pub mod api_keys;
pub mod audit;
pub mod auth;
pub mod backups;
pub mod benchmarks;
pub mod bi;
pub mod billing;
pub mod cli_auth;
pub mod console;
pub mod dashboards;
pub mod discovery;
pub mod drift;
pub mod events;
pub mod extraction;
pub mod inputs;
pub mod jobs;
pub mod llm;
pub mod mail;
pub mod mcp;
pub mod monitors;
pub mod oidc;
pub mod orgs;
pub mod outputs;
pub mod providers;
pub mod raw;
pub mod schedules;
pub mod site_sessions;
pub mod storage;
pub mod suggestions;
pub mod telemetry;
pub mod urls;
pub mod wiring;
pub mod workflows;

use crate::config::{Config, SectionSpec};
pub use crate::console::{
    BOUND_TO_AGENT, SharedView, View, ViewRows, column, console_table, seen_by_agents, table_name,
};
use base::Result;
use base::clock::Timestamp;
use base::ids::{AgentId, OrgId, UserId};
use events::EventKind;
use futures::future::BoxFuture;
use serde_json::Value;
use server::task::{TaskContext, TaskSpec};
use server::{Anonymous, Download, Mount, Need, Route, Services};
use sql::{Horizon, TableSpec};
use std::collections::HashMap;
use store::{AnyTable, OrgRead, OrgWrite, SysRead, SysWrite};
use wiring::commands::Commands;
use wiring::{Close, ConsumerSpec, Finish, Folder, Gauges, Open, SeedOf, StartTest, Status};

/// One capability.
pub struct Feature {
    /// The slice's name: the module's, and the tag in the reference.
    pub name: &'static str,
    /// Every table of its rows, for what goes through all of them (`gleaner doctor`).
    pub tables: &'static [&'static dyn AnyTable],
    /// The slices that this one uses, by their modules: the only ones it may name in its source, and only what their
    /// `mod.rs` shows. They are opened before it.
    pub uses: &'static [&'static str],
    /// The sections of the configuration that are this slice's, and of slices that use it.
    pub sections: &'static [SectionSpec],
    /// Opens the parts of this slice.
    pub open: Option<Open>,
    /// Hangs up what needs the parts of slices above this one.
    pub finish: Option<Finish>,
    /// What this slice writes into a new organization, given the box's parts.
    pub seed: Option<SeedOf>,
    pub routes: &'static [Route],
    /// Routes outside of the API and its document: what people read in a browser, and protocols that are others' own.
    pub pages: &'static [Route],
    /// What holds for everything below a path of this slice's.
    pub mount: Option<&'static Mount>,
    pub tasks: &'static [TaskSpec],
    /// Parts that must hang in `Services` before this slice can work.
    pub needs: &'static [Need],
    /// What the SQL console sees of this slice's rows.
    pub views: &'static [View],
    /// Tables of the SQL console that are the same for every organization.
    pub shared_views: &'static [SharedView],
    /// Tables of the SQL console that an organization's own rows brought and nobody else has.
    pub own_table: Option<OwnTable>,
    /// What this slice holds on a person.
    pub personal: &'static [Personal],
    /// What this slice keeps of an organization outside of the store, or does for it.
    pub holdings: &'static [Holding],
    /// What this slice does when a backup brings an organization back.
    pub comeback: Comeback,
    /// What signed links of this slice lead to.
    pub links: &'static [Link],
    /// Where rows of its console tables lack a column that others have.
    pub horizons: Option<HorizonsOf>,
    /// Whether there is an agent of this id, which a scope can name.
    pub agents: Option<AgentKnown>,
    /// The folders of the data folder that this slice fills.
    pub folders: &'static [Folder],
    /// What of this slice follows the change records.
    pub consumer: Option<ConsumerSpec>,
    /// What is tried at a start.
    pub start_test: Option<StartTest>,
    /// Its lines in `gleaner admin status`.
    pub status: Option<Status>,
    /// Its part of a look (`gleaner admin top`), which is taken every second: cheap, and bounded.
    pub look: Option<Status>,
    /// Its commands for the operator (`gleaner admin`).
    pub commands: Option<Commands>,
    /// The kinds of events that it writes.
    pub events: &'static [&'static EventKind],
    /// Its gauges.
    pub gauges: Option<Gauges>,
    /// How many open files its work takes at most, as the configuration says.
    pub descriptors: Option<fn(&Config) -> u64>,
    /// Ends what runs beside its tasks, once those have ended.
    pub close: Option<Close>,
}

/// The description of a table that an organization's own rows brought, completed; none when it is not there (any more).
pub type OwnTable = fn(&OrgRead<'_>, TableSpec) -> Result<Option<TableSpec>>;

/// The horizons of the console table of this name, as the organization's rows tell.
pub type HorizonsOf = fn(&OrgRead<'_>, table: &str) -> Result<Vec<Horizon>>;

/// Whether the organization has an agent of this id.
pub type AgentKnown = fn(&OrgRead<'_>, AgentId) -> Result<bool>;

impl Feature {
    /// A slice with nothing in it, for `..Feature::NONE`.
    pub const NONE: Feature = Feature {
        name: "",
        tables: &[],
        uses: &[],
        sections: &[],
        open: None,
        finish: None,
        seed: None,
        routes: &[],
        pages: &[],
        mount: None,
        tasks: &[],
        needs: &[],
        views: &[],
        shared_views: &[],
        own_table: None,
        personal: &[],
        holdings: &[],
        comeback: Comeback::NONE,
        links: &[],
        horizons: None,
        agents: None,
        folders: &[],
        consumer: None,
        start_test: None,
        status: None,
        look: None,
        commands: None,
        events: &[],
        gauges: None,
        descriptors: None,
        close: None,
    };

    /// The slice's module: its name with underscores.
    pub fn module(&self) -> String {
        self.name.replace('-', "_")
    }
}

/// A person whose data are shown to them, or erased.
#[derive(Clone, Debug)]
pub struct Person {
    pub id: UserId,
    /// Their address in its one spelling.
    pub email: String,
    /// The organization they are a member of, or were when they asked to be erased.
    pub org: Option<OrgId>,
    /// When they asked. What concerns their address and is from later belongs to whoever registered it again.
    pub asked_at: Timestamp,
}

/// One kind of thing that a slice holds on a person.
///
/// Both functions go step by step, each step in a transaction of its own: the last argument is the place behind which to
/// go on, empty at first.
pub struct Personal {
    /// Names the file of the export and the line of the receipt: `api-keys`.
    pub name: &'static str,
    /// Says to the person what it is, in a sentence.
    pub about: &'static str,
    /// Some of it as JSON for the person. Never a secret, nor what could be used as one.
    pub show: fn(&SysRead<'_>, &Person, &[u8]) -> Result<Shown>,
    /// Removes some of it, or what in it tells the person. Their account is gone by then. May be called again for what was
    /// removed already.
    pub erase: fn(&SysWrite<'_>, &Person, &[u8]) -> Result<Erased>,
}

/// What one step of an export found.
#[derive(Debug, Default)]
pub struct Shown {
    pub rows: Vec<Value>,
    /// Where the next step goes on; none at the end.
    pub next: Option<Vec<u8>>,
}

impl Shown {
    /// Everything in one step.
    pub fn all(rows: impl IntoIterator<Item = Value>) -> Shown {
        Shown { rows: rows.into_iter().collect(), next: None }
    }
}

/// What one step of an erasure removed.
#[derive(Debug, Default)]
pub struct Erased {
    pub removed: u64,
    /// Damaged rows that may be the person's: they could not be read, and stay.
    pub left: u64,
    /// Where the next step goes on; none at the end.
    pub next: Option<Vec<u8>>,
}

/// Something that a slice keeps of an organization outside of the store (files, an index, memory), or does for it.
pub struct Holding {
    /// The line of the receipt: `pages`.
    pub name: &'static str,
    /// Ends and removes it, and gives how many things that were. An error is tried again. Called twice: while the rows
    /// can still be read behind the fence (`SysRead::behind_fence`), and at the end for what was under way meanwhile.
    pub remove: fn(TaskContext, OrgId) -> BoxFuture<'static, Result<u64>>,
}

/// Changes a row of a backup on its way into the store, given the newest change record's number.
pub type ComingRow = fn(row: &[u8], newest: u64) -> Result<Vec<u8>>;
/// Part of an operation that opens an organization; gives how many things it concerned.
pub type Opened = fn(&OrgWrite<'_>) -> Result<u64>;

/// What a slice does when a backup brings an organization back, beside having its rows put in place.
pub struct Comeback {
    /// A table whose rows say where the store stood, and what they become.
    pub rows: Option<(&'static str, ComingRow)>,
    /// Part of the operation that opens the organization, with its name in what the operator is told. Bounded.
    pub open: Option<(&'static str, Opened)>,
    /// What is kept in memory of files that were put in place. Blocking, before it is opened.
    pub files: Option<fn(&Services, OrgId)>,
}

impl Comeback {
    pub const NONE: Comeback = Comeback { rows: None, open: None, files: None };
}

/// What a kind of signed links leads to.
pub struct Link {
    /// Stands in the link: never change one.
    pub kind: &'static str,
    /// Serves the thing that the link names, or says [`raw::gone`].
    pub open: fn(Anonymous, subject: Vec<u8>) -> BoxFuture<'static, Result<Download>>,
    /// Of what kinds what it leads to may be, for the reference.
    pub media_types: fn() -> Vec<&'static str>,
}

/// Every slice of this release.
pub static ALL: &[&Feature] = &[
    &auth::FEATURE,
    &orgs::FEATURE,
    &api_keys::FEATURE,
    &cli_auth::FEATURE,
    &mail::FEATURE,
    &urls::FEATURE,
    &providers::FEATURE,
    &site_sessions::FEATURE,
    &workflows::FEATURE,
    &suggestions::FEATURE,
    &events::FEATURE,
    &jobs::FEATURE,
    &schedules::FEATURE,
    &inputs::FEATURE,
    &mcp::FEATURE,
    &outputs::FEATURE,
    &benchmarks::FEATURE,
    &extraction::FEATURE,
    &storage::FEATURE,
    &llm::FEATURE,
    &discovery::FEATURE,
    &drift::FEATURE,
    &billing::FEATURE,
    &bi::FEATURE,
    &dashboards::FEATURE,
    &monitors::FEATURE,
    &agents::FEATURE,
    &analytics::FEATURE,
    &audit::FEATURE,
    &raw::FEATURE,
    &account::FEATURE,
    &backups::FEATURE,
    &console::FEATURE,
    &telemetry::FEATURE,
    &oidc::FEATURE,
];

/// Whether people get the messages that the box writes to them.
pub fn sends_mail(config: &Config) -> bool {
    config.section::<mail::MailConfig>().is_on()
}

/// Where a browser is led from the box's address.
pub fn start_page() -> Option<&'static str> {
    console::start_page()
}

/// Says in a look, wherever something names an organization (`org`), what it is called (`name`).
pub fn name_orgs(services: &Services, look: &mut Value) {
    let mut names = HashMap::new();
    let mut name_of = |id: OrgId| -> Option<String> {
        let read = || services.system().read(|tx| tx.get(&auth::ORGS, &id)).ok().flatten();
        names.entry(id).or_insert_with(|| read().map(|org| org.name)).clone()
    };
    let mut waiting = vec![look];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(object) => {
                let org = object.get("org").and_then(Value::as_str).and_then(|org| org.parse::<OrgId>().ok());
                if let Some(name) = org.and_then(&mut name_of) {
                    object.insert("name".to_owned(), name.into());
                }
                waiting.extend(object.values_mut());
            }
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
}

/// Who a caller is, and what their organization's plan lets them do: what stands before every route.
pub fn doors(services: &Services) -> (api_keys::Callers, billing::PlanGate) {
    let callers = api_keys::Callers::new(services.service(), services.service());
    (callers, billing::PlanGate(services.service()))
}
