//! What is typed behind `gleaner admin`: the box's own commands, and those of the slices.

use super::level::LogCommand;
use super::{CLOCK_ACCEPT, Request, STATUS};
use crate::features::wiring::commands::{self, MakeRequest};
use clap::error::Error;
use clap::{ArgMatches, Args, FromArgMatches, Subcommand};
use serde_json::Map;

/// A command for the running box, of whatever slice.
pub enum AdminCommand {
    /// Something that the box is asked once, and whose answer is shown.
    Ask(MakeRequest),
    /// A look after the box's data, which is begun and waited for ([`super::checkup`]): it takes as long as there is data.
    Checkup,
    /// What is looked at again and again.
    Top(TopArguments),
}

#[derive(Subcommand)]
enum OwnCommand {
    /// Where the box stands.
    #[command(display_order = 0)]
    Status,
    /// Have the running box look after its data, as far as that goes while it works, and show what it finds. Ends with 1 when
    /// something is wrong.
    #[command(display_order = 1)]
    Doctor,
    /// Look after the clock.
    #[command(subcommand, display_order = 1)]
    Clock(ClockCommand),
    /// See what the box is at, again and again: requests, jobs, statements, memory, disk. q ends it.
    #[command(
        display_order = 1,
        after_help = "Examples:\n  gleaner admin top\n  gleaner admin top --once\n  gleaner admin top --json"
    )]
    Top(TopArguments),
    /// Look after the log.
    #[command(subcommand, display_order = 1)]
    Log(LogCommand),
}

/// How a live view is shown.
#[derive(Args)]
pub struct TopArguments {
    /// One look as text, as off a terminal.
    #[arg(long)]
    pub once: bool,
    /// One look as JSON.
    #[arg(long)]
    pub json: bool,
    /// Seconds between two looks.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub every: u64,
}

#[derive(Subcommand)]
enum ClockCommand {
    /// Count the time that the machine says it was off now, instead of after a while: the clock is right. Terms that ended in
    /// it end, and what is too old to be kept goes.
    Accept,
}

impl FromArgMatches for AdminCommand {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, Error> {
        if let Some(read) = commands::read(matches) {
            return read.map(AdminCommand::Ask);
        }
        let own = OwnCommand::from_arg_matches(matches)?;
        let name = match own {
            OwnCommand::Status => STATUS,
            OwnCommand::Doctor => return Ok(AdminCommand::Checkup),
            OwnCommand::Clock(ClockCommand::Accept) => CLOCK_ACCEPT,
            OwnCommand::Top(shown) => return Ok(AdminCommand::Top(shown)),
            OwnCommand::Log(command) => return Ok(AdminCommand::Ask(Box::new(|| command.request()))),
        };
        Ok(AdminCommand::Ask(Box::new(|| Ok(Request { command: name.to_owned(), given: Map::new() }))))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), Error> {
        *self = AdminCommand::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for AdminCommand {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        commands::augment(OwnCommand::augment_subcommands(command))
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        AdminCommand::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        OwnCommand::has_subcommand(name) || commands::has(name)
    }
}
