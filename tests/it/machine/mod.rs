//! When the machine misbehaves: logs that cannot be written, stores that are gone, copies that were torn, power that is cut,
//! files that cannot be written.

mod clock;
mod damage;
mod disk;
mod erasing;
mod faults;
mod log;
mod lost;
mod older;
mod power;
mod rows;
mod schedules;
mod shim;
mod stop;
mod torn;

pub(crate) use clock::SetClock;

use crate::harness::binary;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a command of the binary over a data folder to its end.
fn gleaner(data: &Path, arguments: &[&str]) -> Output {
    gleaner_under(data, arguments, &[])
}

/// The same with variables of its environment.
fn gleaner_under(data: &Path, arguments: &[&str], environment: &[(&str, OsString)]) -> Output {
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
