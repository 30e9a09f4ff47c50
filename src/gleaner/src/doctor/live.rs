//! The doctor of a box that runs: it looks at what can be looked at while everything goes on, apart from the threads that answer.
//!
//! A look may take as long as the box has pages, and a connection of the operator's does not. So a look goes on by itself, one at a
//! time, and whoever asked for it asks again how far it is.

use super::report::{Diagnosis, Finding};
use super::{files, folder, kept, rows};
use crate::config::Config;
use base::Result;
use parking_lot::Mutex;
use search::SearchIndex;
use serde_json::{Value, json};
use server::Services;
use std::sync::Arc;

/// Looks at a running box.
pub(crate) struct Checkup {
    config: Config,
    state: Mutex<CheckupState>,
}

#[derive(Default)]
enum CheckupState {
    #[default]
    Idle,
    /// At this part.
    Running(&'static str),
    Done(Diagnosis),
}

impl Checkup {
    pub(crate) fn of(config: &Config) -> Arc<Checkup> {
        Arc::new(Checkup { config: config.clone(), state: Mutex::default() })
    }

    /// Begins a look if none is under way.
    pub(crate) fn begin(self: &Arc<Self>, services: &Arc<Services>) -> Value {
        {
            let mut state = self.state.lock();
            if let CheckupState::Running(part) = *state {
                return json!({ "state": "running", "part": part });
            }
            *state = CheckupState::Running("folder");
        }
        let (checkup, services) = (Arc::clone(self), Arc::clone(services));
        tokio::task::spawn_blocking(move || {
            let diagnosis = checkup.look(&services);
            *checkup.state.lock() = CheckupState::Done(diagnosis);
        });
        json!({ "state": "running", "part": "folder" })
    }

    /// How far it is; with what it found, when it is over, which is told once.
    pub(crate) fn ask(&self) -> Value {
        let mut state = self.state.lock();
        match std::mem::take(&mut *state) {
            CheckupState::Idle => json!({ "state": "idle" }),
            CheckupState::Running(part) => {
                *state = CheckupState::Running(part);
                json!({ "state": "running", "part": part })
            }
            CheckupState::Done(diagnosis) => {
                json!({ "state": "done", "report": diagnosis.json(), "text": diagnosis.text() })
            }
        }
    }

    fn at(&self, part: &'static str) {
        *self.state.lock() = CheckupState::Running(part);
    }

    fn look(&self, services: &Services) -> Diagnosis {
        let (config, system) = (&self.config, services.system());
        let mut diagnosis = Diagnosis { is_running: true, ..Diagnosis::default() };
        let mut part = |name: &'static str, look: &mut dyn FnMut() -> Result<super::Part>| {
            self.at(name);
            diagnosis.part(name, look);
        };
        part("folder", &mut || folder::look(config));
        part("store", &mut || {
            Ok((
                format!("{} MiB; its pages are compared with the box off", system.store().file_bytes() >> 20),
                Vec::new(),
            ))
        });
        let layout = (0, 0);
        part("tables", &mut || rows::tables(layout, |table| system.store().check_table(table), Vec::new()));
        let mut keyring = None;
        part("keys", &mut || {
            let (part, own) = rows::keys(system, config);
            keyring = own;
            Ok(part)
        });
        part("audit", &mut || rows::audit(keyring.as_ref(), |must, seal| system.check_audit(must, seal)));
        let mut results = files::ResultsOf::default();
        part("pages", &mut || files::pages(system, config, &mut results));
        part("kept", &mut || kept::look(system, config));
        part("search", &mut || search(services));
        part("sql", &mut || sql(services));
        diagnosis
    }
}

/// The files of the index, while it is searched and fed.
fn search(services: &Services) -> Result<super::Part> {
    let feed = services.service::<crate::features::extraction::SearchFeed>();
    let index: &SearchIndex = feed.index();
    let about = format!("{} documents", index.documents());
    let wrong = |what: String| {
        let what = format!("{what}; it is made anew by itself");
        vec![Finding::new("search", super::Remedy::Repair, what)]
    };
    Ok(match index.verify(&|| false) {
        Ok(damaged) => match damaged.unwrap_or_default() {
            damaged if damaged.is_empty() => (about, Vec::new()),
            damaged => (about, wrong(format!("damaged files: {}", damaged.join(", ")))),
        },
        Err(error) => (about, wrong(error.to_string())),
    })
}

/// The files of the snapshots, while they are read and written.
fn sql(services: &Services) -> Result<super::Part> {
    let feed = services.service::<crate::features::bi::SnapshotFeed>();
    let (organizations, damaged) = feed.verify_all()?;
    let told = damaged.into_iter().map(|(org, why)| {
        let what =
            format!("SQL tables of organization {org}: {why}; a statement that meets it has them made anew");
        Finding::new("sql", super::Remedy::Repair, what)
    });
    Ok((format!("{organizations} organizations"), told.collect()))
}
