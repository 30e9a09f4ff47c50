//! The command line for a box's users: people at a terminal, and scripts. It speaks to a box over its API as any program
//! does, and knows nothing of what is inside one.
//!
//! Data go to standard output and nothing else does; what else is to be said (bars, notes, errors) goes to standard error.
//! [`Exit`] says how a command ends.

mod commands;
mod failure;
mod http;
mod output;
mod profile;
mod session;
mod sse;
mod verbs;

pub use commands::UserCommand;
pub use failure::Exit;

use failure::{Failure, Outcome};
use std::process::ExitCode;

/// Does what was typed, and says what the process ends with.
pub fn run(command: UserCommand) -> ExitCode {
    let json = verbs::wants_json(&command);
    match carry_out(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            match (failure.exit(), json) {
                (Exit::Quiet, _) => {}
                (_, true) => output::say(&failure.json().to_string()),
                (_, false) => output::say(&format!("gleaner: {}", output::visible(&failure.to_string()))),
            }
            ExitCode::from(failure.exit().code())
        }
    }
}

fn carry_out(command: UserCommand) -> Outcome<()> {
    let failed = |e: std::io::Error| Failure::failed(format!("the runtime cannot be started: {e}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    end_when_interrupted().map_err(failed)?;
    let ended = runtime.block_on(verbs::carry_out(command));
    // Whoever still types is not waited for.
    runtime.shutdown_background();
    ended
}

/// Ctrl-C ends the process with 130 whatever it is at, also while it waits for whoever reads its output.
fn end_when_interrupted() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut interrupts = {
        let _inside = runtime.enter();
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?
    };
    std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
        runtime.block_on(async {
            while interrupts.recv().await.is_some() {
                if !verbs::heeds_interrupts() {
                    std::process::exit(i32::from(Exit::Interrupted.code()));
                }
            }
        });
    })?;
    Ok(())
}
