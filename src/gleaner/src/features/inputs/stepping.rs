//! A run while it is taken further, and how it writes down what it has come to.

use super::rows::InputV1;
use super::runs::{InputRunV1, RUNS};
use super::service;
use super::state::{Runner, Walk};
use base::Result;
use std::time::Duration;
use store::OrgStore;

/// Notes of one run.
const NOTES_MAX: usize = 100;

/// What a step came to.
pub(super) enum Step {
    More,
    /// Not before that much later.
    Later(Duration),
    Over,
}

/// A run and its box.
pub(super) struct Stepping<'s> {
    pub runner: &'s Runner,
    pub own: &'s OrgStore,
    pub run: &'s InputRunV1,
    pub input: &'s InputV1,
}

impl Stepping<'_> {
    /// Writes something into the run's row, with the notes that wait.
    pub async fn note(
        &self,
        walk: &mut Walk,
        change: impl FnOnce(&mut InputRunV1) + Send + 'static,
    ) -> Result<()> {
        let (id, notes) = (self.run.id, std::mem::take(&mut walk.notes));
        self.own
            .write(move |tx| {
                let Some(mut run) = service::open_run(tx, id)? else { return Ok(()) };
                let room = NOTES_MAX.saturating_sub(run.notes.len());
                run.notes.extend(notes.into_iter().take(room));
                change(&mut run);
                tx.put(&RUNS, &id, &run)
            })
            .await
    }
}
