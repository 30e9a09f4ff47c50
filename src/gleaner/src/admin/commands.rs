//! What is typed behind `gleaner admin`: the box's own commands, and those of the slices.

use super::{CLOCK_ACCEPT, DOCTOR, Request, STATUS};
use crate::features::wiring::commands::{self, MakeRequest};
use base::Result;
use clap::error::Error;
use clap::{ArgMatches, FromArgMatches, Subcommand};
use serde_json::Map;

/// A command for the running box, of whatever slice.
pub struct AdminCommand {
    make: MakeRequest,
    /// It is asked and waited for ([`super::checkup`]): a look takes as long as there is data.
    pub is_checkup: bool,
}

impl AdminCommand {
    /// What is asked of the box.
    pub fn request(self) -> Result<Request> {
        (self.make)()
    }
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
            return read.map(|make| AdminCommand { make, is_checkup: false });
        }
        let own = OwnCommand::from_arg_matches(matches)?;
        let name = match own {
            OwnCommand::Status => STATUS,
            OwnCommand::Doctor => DOCTOR,
            OwnCommand::Clock(ClockCommand::Accept) => CLOCK_ACCEPT,
        };
        let make = Box::new(|| Ok(Request { command: name.to_owned(), given: Map::new() }));
        Ok(AdminCommand { make, is_checkup: matches!(own, OwnCommand::Doctor) })
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
