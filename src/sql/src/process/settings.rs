//! How workers are run: their bounds, and how many of them the box can afford.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a process may allocate, in multiples of the memory pool: the pool does not see everything.
const DATA_LIMIT_POOLS: u64 = 4;
/// And this much besides, for stacks and the program itself.
const DATA_LIMIT_BASE_BYTES: u64 = 256 << 20;

/// Places beside `concurrency_box` for organizations with nothing running.
pub(super) const PLACES_KEPT: usize = 1;

/// How workers are run.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// The program, usually `own_program()`; it must call `worker_main` on the argument `sql-worker`.
    pub exe: PathBuf,
    /// Longest run of a statement, planning included.
    pub query_timeout: Duration,
    /// Memory pool of a statement; the process may take about four times as much.
    pub memory_bytes: u64,
    /// What all workers together may take; `concurrency_box` gives way to it.
    pub memory_box_bytes: u64,
    /// DiskWatch a statement may spill to.
    pub spill_bytes_max: u64,
    /// Most rows of a result; the rest is cut off and said to be.
    pub rows_max: u64,
    /// Most bytes of a result, likewise.
    pub bytes_max: u64,
    /// Where workers have their folders; emptied at the start.
    pub spill_dir: PathBuf,
    /// Where results are kept, one folder an organization.
    pub results_dir: PathBuf,
    /// Free space at which the store stops to write. Statements that need much disk end before that.
    pub reserve_bytes: u64,
    /// Run nothing where the kernel cannot hold a worker.
    pub require_sandbox: bool,
    /// Statements that run at once.
    pub concurrency_box: usize,
}

impl WorkerSettings {
    /// Statements that run at once: as many as were asked for and have their pools in the box's share; one at least.
    pub(super) fn concurrency(&self) -> usize {
        let affordable = self.memory_box_bytes / self.memory_bytes.max(1);
        self.concurrency_box.min(usize::try_from(affordable).unwrap_or(usize::MAX)).max(1)
    }

    /// What one worker may allocate: some pools, but not so much that all of them together could take twice the share.
    pub(super) fn data_bytes_max(&self) -> u64 {
        let wanted = self.memory_bytes.saturating_mul(DATA_LIMIT_POOLS);
        let needed = self.memory_bytes.saturating_add(DATA_LIMIT_BASE_BYTES);
        let fair = self.memory_box_bytes.saturating_mul(2) / (self.concurrency() + PLACES_KEPT) as u64;
        wanted.saturating_add(DATA_LIMIT_BASE_BYTES).min(fair.max(needed))
    }
}

/// The program that runs, to start workers of: the very file, also when an upgrade has put another one in its place
/// meanwhile or removed it. A worker of another release would not understand this server.
pub fn own_program() -> io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() { Ok(running.to_owned()) } else { std::env::current_exe() }
}

/// Memory of this box in bytes: the machine's, or what its control group allows if that is less.
pub fn box_memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    // The fields' types differ between processors.
    #[allow(clippy::unnecessary_cast)]
    let machine = (system.totalram as u64).saturating_mul(system.mem_unit as u64);
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    memory_allowed(&own, Path::new("/sys/fs/cgroup")).fold(machine, u64::min)
}

/// The memory limits of the control groups that `own` (`/proc/self/cgroup`) names below `root`, of both versions: the
/// second has one tree with `memory.max`, the first a tree for memory with `memory.limit_in_bytes`.
fn memory_allowed(own: &str, root: &Path) -> impl Iterator<Item = u64> {
    let line = |wanted: &str| {
        own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let of = parts.next()?.split(',').any(|controller| controller == wanted);
            parts.next().filter(|_| of).map(|path| path.trim_start_matches('/').to_owned())
        })
    };
    let trees =
        [("", root.to_owned(), "memory.max"), ("memory", root.join("memory"), "memory.limit_in_bytes")];
    let mut found = Vec::new();
    for (controller, root, file) in trees {
        let group = root.join(line(controller).unwrap_or_default());
        let groups = group.ancestors().take_while(|group| group.starts_with(&root));
        let read = |group: &Path| fs::read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok();
        found.extend(groups.filter_map(read));
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_groups_of_both_versions_bound_the_memory() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("box/memory.max", "max\n");
        write("box/inner/memory.max", "3000\n");
        write("memory/docker/memory.limit_in_bytes", "2000\n");
        write("memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
        let least = |own: &str| memory_allowed(own, root.path()).min();
        assert_eq!(least("0::/box/inner\n"), Some(3_000));
        assert_eq!(least("5:cpu,cpuacct:/x\n4:memory:/docker/abc\n"), Some(2_000));
        assert_eq!(least(""), None);
    }
}
