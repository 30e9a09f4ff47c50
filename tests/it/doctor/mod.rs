//! The doctor: kinds of damage through it, each named; what is derived is mended, and whatever is not is refused or passed over
//! by name. And what an upgrade would do.

mod case;
mod files;
mod running;
mod store;
mod upgrade;

use crate::harness::binary;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a command of the binary over a data folder to its end.
fn gleaner(data: &Path, arguments: &[&str], environment: &[(&str, OsString)]) -> Output {
    Command::new(binary())
        .envs(environment.iter().map(|(key, value)| (key, value)))
        .args(arguments)
        .current_dir(data.parent().unwrap())
        .env("GLEANER_SERVER__LISTEN", "127.0.0.1:0")
        .env("GLEANER_STORAGE__DATA_DIR", data)
        .env("GLEANER_LOG__LEVEL", "error")
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
