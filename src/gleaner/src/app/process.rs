//! The process, those that it has begun, and the machine, as the kernel counts them (proc(5)). What cannot be read is not a number.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// Processes that are added up.
const DESCENDANTS_MAX: usize = 1_024;

pub(super) fn open_descriptors() -> f64 {
    // One of them is the folder being read.
    fs::read_dir("/proc/self/fd").map_or(f64::NAN, |all| all.count().saturating_sub(1) as f64)
}

pub(super) fn descriptors_max() -> f64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map_or(f64::INFINITY, |most| most as f64)
}

pub(super) fn status_bytes(name: &str) -> f64 {
    status_number(name) * 1024.0
}

pub(super) fn status_number(name: &str) -> f64 {
    number_of("/proc/self/status", name)
}

/// A number of /proc/meminfo, in bytes.
pub(super) fn machine_bytes(name: &str) -> f64 {
    number_of("/proc/meminfo", name) * 1024.0
}

/// Now, in seconds since 1970.
pub(super) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(f64::NAN, |now| now.as_secs_f64())
}

/// Memory of the processes that this one has begun, and of theirs, without mapped files: SQL workers, the browser.
pub(super) fn descendants_bytes() -> f64 {
    let mut waiting = children("self");
    let (mut seen, mut bytes) = (0, 0.0);
    while let Some(process) = waiting.pop() {
        seen += 1;
        if seen > DESCENDANTS_MAX {
            break;
        }
        let own = number_of(&format!("/proc/{process}/status"), "RssAnon") * 1024.0;
        // One that has ended meanwhile has none.
        if own.is_finite() {
            bytes += own;
        }
        waiting.extend(children(&process));
    }
    bytes
}

fn children(process: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let of_thread =
        |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).unwrap_or_default();
    let all: Vec<String> = threads.map(of_thread).collect();
    all.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect()
}

fn number_of(file: &str, name: &str) -> f64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(f64::NAN)
}
