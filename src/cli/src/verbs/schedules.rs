//! Schedules: seeing them, firing them, holding them.

use crate::commands::SchedulesCommand;
use crate::failure::Outcome;
use crate::http::{Payload, escaped};
use crate::output::Column;
use crate::session::Session;
use http::Method;
use serde_json::json;

const SCHEDULES: [Column; 6] = [
    ("ID", "/id"),
    ("NAME", "/name"),
    ("CRON", "/cron"),
    ("ZONE", "/timezone"),
    ("ON", "/isEnabled"),
    ("NEXT", "/nextFireAt"),
];
const FIRED: [Column; 3] = [("JOBS", "/jobsCreated"), ("RUN", "/scheduleRunId"), ("NOTE", "/message")];
const TOGGLED: [Column; 2] = [("ID", "/id"), ("ON", "/isEnabled")];

pub async fn carry_out(session: &Session, command: SchedulesCommand) -> Outcome<()> {
    let place = |id: &str| format!("/api/v1/schedules/{}", escaped(id));
    let (id, is_enabled) = match command {
        SchedulesCommand::List { rows } => {
            return session.list("/api/v1/schedules", &[], &rows, &SCHEDULES).await;
        }
        SchedulesCommand::Trigger { id } => {
            let path = format!("{}/trigger", place(&id));
            let told = session.remote.ask(Method::POST, &path, Payload::None).await?;
            return session.show(&told, &FIRED);
        }
        SchedulesCommand::Pause { id } => (id, false),
        SchedulesCommand::Resume { id } => (id, true),
    };
    let body = Payload::json(&json!({ "isEnabled": is_enabled }));
    let told = session.remote.ask(Method::PATCH, &format!("{}/toggle", place(&id)), body).await?;
    session.show(&told, &TOGGLED)
}
