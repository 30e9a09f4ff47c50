//! The operator's commands, as slices declare them: what is typed behind `gleaner admin`, and what the box does then.
//!
//! The two meet on the operator's socket, and are of two processes: the one that is typed into sends a [`Request`], the box
//! answers it. The trunk ([`crate::admin`]) carries both and knows no slice.

use crate::features::ALL;
use base::{Error, Result};
use clap::{ArgMatches, Subcommand};
use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use server::Services;
use std::sync::Arc;

/// One command on its way to the box: its name and what it is given, as one object of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub command: String,
    #[serde(flatten)]
    pub given: Map<String, Value>,
}

impl Request {
    /// The request for a command with what it is given.
    pub fn of<T: Operation>(given: &T) -> Result<Request> {
        let doing = "write the operator's command";
        match serde_json::to_value(given).map_err(|e| Error::internal(doing, e))? {
            Value::Object(given) => Ok(Request { command: T::NAME.to_owned(), given }),
            Value::Null => Ok(Request { command: T::NAME.to_owned(), given: Map::new() }),
            _ => Err(Error::internal(doing, "it is no object")),
        }
    }
}

/// What an operator can have done: a type with what it is given.
pub trait Operation: Serialize + DeserializeOwned + Send + 'static {
    /// Its name on the socket: `user_list`.
    const NAME: &'static str;

    /// Does it, and says what came of it.
    fn run(self, services: Arc<Services>) -> impl Future<Output = Result<Value>> + Send;
}

/// An [`Operation`] as a slice lists it.
pub struct OperationSpec {
    name: &'static str,
    run: fn(Value, Arc<Services>) -> BoxFuture<'static, Result<Value>>,
}

impl OperationSpec {
    pub const fn of<T: Operation>() -> OperationSpec {
        OperationSpec {
            name: T::NAME,
            run: |given, services| {
                Box::pin(async move {
                    let given = serde_json::from_value::<T>(given);
                    given.map_err(|e| not_a_command(&e))?.run(services).await
                })
            },
        }
    }
}

/// Commands as they are typed: an `enum` with their help.
pub trait Typed: Subcommand + Send + 'static {
    /// What is asked of the box.
    fn request(self) -> Result<Request>;
}

/// A request that is made when it is wanted: it may read a file.
pub type MakeRequest = Box<dyn FnOnce() -> Result<Request>>;

/// The commands of a slice.
pub struct Commands {
    augment: fn(clap::Command) -> clap::Command,
    has: fn(&str) -> bool,
    read: fn(&ArgMatches) -> std::result::Result<MakeRequest, clap::Error>,
    operations: &'static [OperationSpec],
}

impl Commands {
    /// What is typed as `T`, and the operations that it asks for.
    pub const fn of<T: Typed>(operations: &'static [OperationSpec]) -> Commands {
        Commands {
            augment: T::augment_subcommands,
            has: T::has_subcommand,
            read: |matches| {
                let typed = T::from_arg_matches(matches)?;
                Ok(Box::new(move || typed.request()))
            },
            operations,
        }
    }
}

fn all() -> impl Iterator<Item = &'static Commands> {
    ALL.iter().filter_map(|feature| feature.commands.as_ref())
}

/// Adds the commands of all slices.
pub fn augment(command: clap::Command) -> clap::Command {
    all().fold(command, |command, own| (own.augment)(command))
}

/// Whether a slice has a command that is typed so.
pub fn has(name: &str) -> bool {
    all().any(|own| (own.has)(name))
}

/// What was typed, if it is a command of a slice.
pub fn read(matches: &ArgMatches) -> Option<std::result::Result<MakeRequest, clap::Error>> {
    let name = matches.subcommand_name()?;
    all().find(|own| (own.has)(name)).map(|own| (own.read)(matches))
}

/// Does what a slice is asked for.
pub async fn run(request: Request, services: Arc<Services>) -> Result<Value> {
    let mut operations = all().flat_map(|own| own.operations);
    let Some(found) = operations.find(|operation| operation.name == request.command) else {
        return Err(not_a_command(&format!("there is no {:?}", request.command)));
    };
    (found.run)(Value::Object(request.given), services).await
}

fn not_a_command(why: &dyn std::fmt::Display) -> Error {
    Error::conflict(format!("not a command: {why}"))
}

/// What came of a command, as JSON.
pub fn told(answer: impl Serialize) -> Result<Value> {
    serde_json::to_value(answer).map_err(|e| Error::internal("write the answer to the operator", e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_operation_and_every_typed_command_is_one_slices() {
        let names: Vec<_> = all().flat_map(|own| own.operations).map(|operation| operation.name).collect();
        assert!(names.len() > 15, "{names:?}");
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        let typed = augment(clap::Command::new("admin"));
        for command in typed.get_subcommands() {
            let owners = all().filter(|own| (own.has)(command.get_name())).count();
            assert_eq!(owners, 1, "{}", command.get_name());
        }
    }
}
