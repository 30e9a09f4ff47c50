//! What each command does.

mod api;
mod collect;
mod events;
mod jobs;
mod listen;
mod login;
mod results;
mod schedules;
mod schemas;
mod sql;
mod urls;

use crate::commands::{OutputsCommand, UserCommand};
use crate::failure::Outcome;
use crate::output::Column;
use crate::session::Session;

const OUTPUTS: [Column; 7] = [
    ("ID", "/id"),
    ("KIND", "/kind"),
    ("NAME", "/name"),
    ("STATE", "/state"),
    ("EVENTS", "/events"),
    ("PENDING", "/pending"),
    ("FAILED", "/failed"),
];

/// Whether a command, as it was typed, answers in JSON, and so tells its errors.
pub fn wants_json(command: &UserCommand) -> bool {
    use UserCommand as Is;
    match command {
        Is::Login(it) => it.common.json,
        Is::Logout(it) | Is::Whoami(it) => it.common.json,
        Is::Profiles(it) => it.json,
        Is::Urls { common, .. }
        | Is::Jobs { common, .. }
        | Is::Results { common, .. }
        | Is::Schemas { common, .. }
        | Is::Schedules { common, .. }
        | Is::Outputs { common, .. } => common.json,
        Is::Collect(it) => it.common.json,
        Is::Sql(it) => it.common.json,
        Is::Api(it) => it.common.json,
        Is::Events(it) => it.common.json,
    }
}

/// Whether Ctrl-C means something else at the moment than the end: at the prompt it ends a statement.
pub fn heeds_interrupts() -> bool {
    sql::is_at_prompt()
}

pub async fn carry_out(command: UserCommand) -> Outcome<()> {
    use UserCommand as Is;
    match command {
        Is::Login(it) => login::login(it).await,
        Is::Logout(it) => login::logout(&it.common).await,
        Is::Whoami(it) => login::whoami(&Session::open(&it.common)?).await,
        Is::Profiles(it) => login::profiles(&it),
        Is::Urls { common, command } => urls::carry_out(&Session::open(&common)?, command).await,
        Is::Collect(it) => collect::collect(&Session::open(&it.common)?, &it).await,
        Is::Jobs { common, command } => jobs::carry_out(&Session::open(&common)?, command).await,
        Is::Results { common, command } => results::carry_out(&Session::open(&common)?, command).await,
        Is::Sql(it) => sql::sql(&Session::open(&it.common)?, &it).await,
        Is::Schemas { common, command } => schemas::carry_out(&Session::open(&common)?, command).await,
        Is::Schedules { common, command } => schedules::carry_out(&Session::open(&common)?, command).await,
        Is::Api(it) => api::api(&Session::open(&it.common)?, &it).await,
        Is::Events(it) => events::events(&Session::open(&it.common)?, &it).await,
        Is::Outputs { common, command } => {
            let session = Session::open(&common)?;
            match command {
                OutputsCommand::List { rows } => session.list("/api/v1/outputs", &[], &rows, &OUTPUTS).await,
                listen => listen::listen(&session, listen).await,
            }
        }
    }
}
