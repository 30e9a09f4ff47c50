//! How a slice becomes part of a box: the parts it opens at a start, and what else of the box is its own.
//!
//! The trunk folds over the list of slices and names none of them. A slice says in its [`super::Feature`] which others it
//! uses; each is opened after those, so their parts hang already.

pub mod commands;

use super::{ALL, Feature, Holding};
use crate::config::explain::{self, Fault, Setting};
use crate::config::{Config, SectionSpec, may_be_ours};
use base::clock::Timestamp;
use base::ids::{OrgId, UserId};
use base::{Error, Result};
use futures::future::BoxFuture;
use serde_json::Value;
use server::task::{Consumer, Stage, TaskSpec, follow};
use server::{Metrics, Services};
use std::any::Any;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::{Store, SysWrite, System};

/// Opens the parts of a slice and hangs them up. An error ends the start.
pub type Open = for<'w> fn(&'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>>;

/// Hangs up what needs parts of slices that stand above this one; called when all are open.
pub type Finish = fn(&mut Wiring<'_>) -> Result<()>;

/// A box that is being put together.
pub struct Wiring<'a> {
    pub config: &'a Config,
    /// How people reach the box, without a slash at the end.
    pub url: &'a str,
    /// Where the box listens: no job may ask there.
    pub listening: &'a [SocketAddr],
    /// The program that runs SQL workers.
    pub exe: &'a Path,
    services: Services,
}

impl<'a> Wiring<'a> {
    /// A box with the trunk's own parts in `services` and none of a slice's.
    pub fn new(
        config: &'a Config,
        url: &'a str,
        listening: &'a [SocketAddr],
        exe: &'a Path,
        services: Services,
    ) -> Wiring<'a> {
        Wiring { config, url, listening, exe, services }
    }

    /// Opens every slice.
    pub async fn open_all(mut self) -> Result<Services> {
        for open in in_order().into_iter().filter_map(|feature| feature.open) {
            open(&mut self).await?;
        }
        for finish in in_order().into_iter().filter_map(|feature| feature.finish) {
            finish(&mut self)?;
        }
        Ok(self.services)
    }

    /// A part of the trunk's, of a slice that this one uses, or one that it has hung up itself.
    ///
    /// # Panics
    /// When there is none: the slice uses one that it does not name.
    pub fn part<T: Any + Send + Sync>(&self) -> Arc<T> {
        self.services.service()
    }

    /// Hangs up a part, and gives it back.
    pub fn hang<T: Any + Send + Sync>(&mut self, part: impl Into<Arc<T>>) -> Arc<T> {
        let part = part.into();
        self.services.hang(Arc::clone(&part));
        part
    }

    /// Everything that hangs so far.
    pub fn services(&self) -> &Services {
        &self.services
    }

    pub fn store(&self) -> &Store {
        self.services.store()
    }

    pub fn system(&self) -> System {
        self.services.system().clone()
    }

    /// A folder or file of this name in the data folder.
    pub fn data(&self, name: &str) -> PathBuf {
        self.config.storage.data_dir.join(name)
    }
}

/// The sections of all slices.
pub(crate) fn sections() -> Vec<&'static SectionSpec> {
    ALL.iter().flat_map(|feature| feature.sections).collect()
}

/// The folders of the data folder that slices fill.
pub fn folders() -> impl Iterator<Item = &'static Folder> {
    ALL.iter().flat_map(|feature| feature.folders)
}

/// The variables of this process's environment that may be meant for the box. One of them that is not UTF-8 is refused by its
/// name; others are nobody's business here.
fn environment() -> Result<Vec<(String, String)>> {
    let mut env = Vec::new();
    for (name, value) in std::env::vars_os() {
        let Some(name) = name.to_str().filter(|name| may_be_ours(name)) else { continue };
        match value.into_string() {
            Ok(value) => env.push((name.to_owned(), value)),
            // Only a name with two underscores side by side sets a key.
            Err(_) if !name.contains("__") => {}
            Err(_) => return Err(Error::invalid(name, "the value is not UTF-8")),
        }
    }
    Ok(env)
}

/// A configuration's file, and what it is called.
fn text_of(file: Option<&Path>) -> Result<(String, String)> {
    let Some(path) = file else { return Ok(("configuration".to_owned(), String::new())) };
    let name = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(Error::invalid(&name, format!("cannot be read: {error}"))),
    }
}

impl Config {
    /// The same with the environment of this process.
    pub fn load_here(file: Option<&Path>) -> Result<Config> {
        Config::load(file, environment()?)
    }

    /// The defaults under `file`, if there is one, under the environment `env`. Relative paths are made absolute, from the
    /// working directory.
    pub fn load(file: Option<&Path>, env: impl IntoIterator<Item = (String, String)>) -> Result<Config> {
        let (name, given) = text_of(file)?;
        Ok(Config::merge(&name, &given, env)?.read_from(file))
    }

    /// Every fault of `file`, if there is one, of the environment of this process, and of the files that they name.
    pub fn faults_here(file: Option<&Path>) -> Vec<Fault> {
        let told = |error: Error| {
            let told = error.for_operator();
            let (place, reason) = told.split_once(": ").unwrap_or(("configuration", &told));
            vec![Fault { place: place.to_owned(), key: String::new(), reason: reason.to_owned() }]
        };
        match text_of(file).and_then(|text| Ok((text, environment()?))) {
            Ok(((name, given), env)) => explain::faults(&name, &given, env, |text, env| {
                let config = Config::merge(&name, text, env)?;
                config.check_files(&sections()).map(|()| config)
            }),
            Err(error) => told(error),
        }
    }

    /// What is in force with `file`, if there is one, and the environment of this process.
    pub fn settings_here(file: Option<&Path>) -> Result<Vec<Setting>> {
        let (name, given) = text_of(file)?;
        explain::settings(&name, &given, environment()?)
    }

    /// The same of a text, which is called `name` where it is wrong.
    pub(crate) fn merge(
        name: &str,
        given: &str,
        env: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Config> {
        Config::with_sections(&sections(), name, given, env)
    }
}

/// Every slice, each after those that it uses; slices that know nothing of each other in the order of the list.
pub fn in_order() -> Vec<&'static Feature> {
    fn visit(feature: &'static Feature, ordered: &mut Vec<&'static Feature>) {
        if ordered.iter().any(|known| known.name == feature.name) {
            return;
        }
        let uses = |other: &&&'static Feature| feature.uses.contains(&other.module().as_str());
        for other in ALL.iter().filter(uses) {
            visit(other, ordered);
        }
        ordered.push(feature);
    }
    let mut ordered = Vec::new();
    for feature in ALL {
        visit(feature, &mut ordered);
    }
    ordered
}

/// An organization that is being made, as its seeds see it.
#[derive(Clone, Debug)]
pub struct NewOrg {
    pub id: OrgId,
    pub name: String,
    pub owner: UserId,
    pub created_at: Timestamp,
}

/// What a slice writes into a new organization, inside the transaction that makes it; with the owner's address in its one
/// spelling. An error makes none.
pub type OrgSeed = Box<dyn Fn(&SysWrite<'_>, &NewOrg, &str) -> Result<()> + Send + Sync>;

/// A folder of the data folder that a slice fills.
pub struct Folder {
    pub name: &'static str,
    /// Whether the box cannot do its work while this folder's disk is full.
    pub is_needed: bool,
}

/// What of a slice follows the change records: the part, the task that drives it, and what it keeps of an organization.
///
/// Records are kept until every consumer that a slice declares has them durably, and an erasure asks each of them, so none can
/// be overlooked.
pub struct ConsumerSpec {
    part: fn(&Services) -> Arc<dyn Consumer>,
    task: TaskSpec,
    holding: Holding,
}

impl ConsumerSpec {
    /// The part `T`, driven by the task of this name, which is tried again within `retry_max` when it fails. `held` is the line
    /// of what it keeps of an organization, in an erasure's receipt.
    pub const fn of<T: Consumer>(
        task: &'static str,
        retry_max: Duration,
        held: &'static str,
    ) -> ConsumerSpec {
        ConsumerSpec {
            part: |services| services.service::<T>(),
            task: TaskSpec::new(task, RESUMED_AFTER, |context| {
                Box::pin(follow(context.service::<T>(), context))
            })
            .stage(Stage::Derive)
            .tried_again_within(retry_max),
            holding: Holding {
                name: held,
                remove: |context, org| {
                    Box::pin(async move {
                        let consumer = context.service::<T>();
                        let forgotten = tokio::task::spawn_blocking(move || consumer.forget(org)).await;
                        forgotten.map_err(|e| Error::internal("forget an organization", e))?
                    })
                },
            },
        }
    }
}

/// How soon following is begun again where it ended and the box goes on.
const RESUMED_AFTER: Duration = Duration::from_secs(1);

/// Every consumer, given the box's parts.
pub fn consumers(services: &Services) -> Vec<Arc<dyn Consumer>> {
    let declared = ALL.iter().filter_map(|feature| feature.consumer.as_ref());
    declared.map(|consumer| (consumer.part)(services)).collect()
}

/// Every task of the slices, those of their consumers too.
pub fn tasks() -> impl Iterator<Item = &'static TaskSpec> {
    ALL.iter().flat_map(|feature| {
        feature.tasks.iter().chain(feature.consumer.as_ref().map(|consumer| &consumer.task))
    })
}

/// What the slices keep of an organization outside of the store, what their consumers do too.
pub fn holdings() -> impl Iterator<Item = &'static Holding> {
    ALL.iter().flat_map(|feature| {
        feature.holdings.iter().chain(feature.consumer.as_ref().map(|consumer| &consumer.holding))
    })
}

/// What is tried at a start before the box calls itself ready.
pub struct StartTest {
    /// Stands in `/readyz`, `gleaner admin status` and the metrics: `sql`.
    pub name: &'static str,
    /// Whether it works; false where it cannot be tried yet, because of others' work.
    pub run: fn(Arc<Services>) -> BoxFuture<'static, Result<bool>>,
    /// Where it cannot be tried and works in part nevertheless: how well.
    pub partly: fn(&Services) -> Option<String>,
}

/// Lines of `gleaner admin status`, each with its name.
pub type Status = fn(&Services) -> Vec<(&'static str, Value)>;

/// What a slice writes into a new organization, given the box's parts.
pub type SeedOf = fn(&Services) -> OrgSeed;

/// Ends what a slice runs beside its tasks.
pub type Close = fn(Arc<Services>) -> BoxFuture<'static, ()>;

/// Registers a slice's gauges.
pub type Gauges = fn(&Metrics, &Services);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_slice_is_opened_after_those_that_it_uses() {
        let ordered: Vec<_> = in_order().into_iter().map(|feature| feature.module()).collect();
        let known: HashSet<_> = ordered.iter().map(String::as_str).collect();
        assert_eq!((ordered.len(), known.len()), (ALL.len(), ALL.len()), "{ordered:?}");
        for feature in ALL {
            let at = |name: &str| ordered.iter().position(|known| known == name);
            for used in feature.uses {
                assert!(known.contains(used), "{} uses {used}, which is no slice", feature.name);
                assert!(at(used) < at(&feature.module()), "{} and {used} use each other", feature.name);
            }
        }
    }
}
