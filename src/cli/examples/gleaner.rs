//! The command line alone, for work on it: it links in seconds, where the binary that has a box in it takes minutes.
//! `cargo run -p gleaner-cli --example gleaner -- whoami`

use clap::Parser;
use gleaner_cli::UserCommand;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "gleaner", arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: UserCommand,
}

fn main() -> ExitCode {
    gleaner_cli::run(Arguments::parse().command)
}
