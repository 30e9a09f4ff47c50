//! What a worker locks itself into before it sees a statement.
//!
//! A statement is planned and run by a large library that was not written to hold an attacker. So its process is made
//! small first: limits on memory, file size and open files; Landlock, so that the kernel opens only this
//! organization's segments and those that all share (to read) and the worker's own folder (to write), no TCP port and no foreign socket or
//! signal; no capabilities, also where the box runs as root; a list of system calls (seccomp) outside which there are none: no sockets, no other programs, no new
//! processes, no tracing, no memory that is writable and then run. Whoever breaks out of SQL stands in that.
//!
//! All of this is the kernel's, and old or trimmed kernels lack parts of it: [`support`] says what this one has, the
//! server says so at its start, and `gleaner admin status` shows it.
//!
//! Sources: landlock(7), seccomp(2), prctl(2), setrlimit(2). The list of calls is what Rust's standard library, glibc and
//! tokio need for memory, files and threads; a call that is not on it answers as on a kernel that lacks it.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use caps::{CapSet, Capability};
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::process::{Resource, Rlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use serde::{Deserialize, Serialize};

/// Files a worker may hold open at once: segments are mapped and closed, so these are pipes and spilled runs.
const OPEN_FILES_MAX: u64 = 512;
/// How much a worker gives way to the server, on the scale of nice(2): by the kernel's weights a quarter of a processor that both
/// want all of. More was tried and not measured: on a busy machine statements waited long.
const NICENESS: i32 = 5;
/// The newest Landlock whose rights were looked at; more of a newer kernel is not used.
const LANDLOCK_NEWEST: ABI = ABI::V6;

/// How much of a protection the kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Holds {
    /// All that was asked for.
    Fully,
    /// An older form: some rights or kinds of object are not covered.
    Partly,
    /// Nothing.
    NotAtAll,
}

/// The protections of the kernel on which this box runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxSupport {
    /// Files, ports and foreign sockets (Landlock).
    pub landlock: Holds,
    /// System calls (seccomp).
    pub seccomp: Holds,
}

impl SandboxSupport {
    /// Whether the kernel holds a worker in. An older Landlock does: what it leaves open (sockets, signals, emptying a file
    /// by opening it) the list of calls does not.
    pub fn isolates(&self) -> bool {
        self.landlock != Holds::NotAtAll && self.seccomp == Holds::Fully
    }

    /// What is missing, in a sentence for the operator; none when nothing is.
    pub fn warning(&self) -> Option<String> {
        let mut missing = Vec::new();
        match self.landlock {
            Holds::Fully => {}
            Holds::Partly => missing.push(
                "Landlock only in an older form (Linux 6.12 has all of it), so that some of what it should hold is held by \
                 the list of system calls alone",
            ),
            Holds::NotAtAll => missing.push(
                "no Landlock (Linux 5.13 and later have it; look for \"landlock\" in the kernel's lsm= list), so that \
                 only file modes keep a worker from other files",
            ),
        }
        if self.seccomp == Holds::NotAtAll {
            missing.push("no seccomp filters, so that a worker may call whatever the kernel offers");
        }
        (!missing.is_empty())
            .then(|| format!("The kernel under the SQL workers has {}.", missing.join("; and ")))
    }
}

/// What this kernel has. Changes nothing; any thread may ask.
pub fn support() -> SandboxSupport {
    let has = |ruleset: Ruleset| ruleset.create().is_ok();
    let hard = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let landlock = if hard()
        .handle_access(AccessFs::from_all(LANDLOCK_NEWEST))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(LANDLOCK_NEWEST)))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(LANDLOCK_NEWEST)))
        .is_ok_and(has)
    {
        Holds::Fully
    } else if hard().handle_access(AccessFs::from_all(ABI::V1)).is_ok_and(has) {
        Holds::Partly
    } else {
        Holds::NotAtAll
    };
    let filters = Path::new("/proc/sys/kernel/seccomp/actions_avail").exists();
    let seccomp = if filters && filter().is_ok() { Holds::Fully } else { Holds::NotAtAll };
    SandboxSupport { landlock, seccomp }
}

/// The walls of one worker.
#[derive(Clone, Debug)]
pub(super) struct Confinement<'a> {
    /// The organization's segments, and those that all organizations share; none where there is no folder yet.
    pub(super) read: [Option<&'a Path>; 2],
    /// The worker's own folder.
    pub(super) write: &'a Path,
    /// What the process may allocate. File mappings do not count.
    pub(super) data_bytes_max: u64,
    /// The largest file it may write.
    pub(super) file_bytes_max: u64,
}

/// Lets the server and everything else go first on the processor, from the first moment, and hides the process's memory
/// from others of the same user: they can neither trace it nor read it through /proc.
pub(super) fn give_way() {
    // A box that starts its workers at the lowest priority already may not lower it: then nothing is lost.
    let _ = rustix::process::nice(NICENESS);
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

/// Locks the process in, for good. Must be called while it has one thread: the rules hold for this thread and those
/// that it starts. Gives what holds; what the kernel has and refuses to apply is an error.
pub(super) fn enter(confinement: &Confinement<'_>) -> io::Result<SandboxSupport> {
    limit(Resource::Core, 0)?;
    limit(Resource::Data, confinement.data_bytes_max)?;
    limit(Resource::Fsize, confinement.file_bytes_max)?;
    limit(Resource::Nofile, OPEN_FILES_MAX)?;
    drop_capabilities(confinement)?;
    let landlock = lock_files(confinement).map_err(io::Error::other)?;
    let seccomp = lock_calls()?;
    Ok(SandboxSupport { landlock, seccomp })
}

/// Gives up every capability, for good: a box that runs as root in a container has some, and a worker needs none. The bounding
/// set goes first, for that takes a capability itself; one that a kernel has no name for is not there.
///
/// One stays where the data folder is another user's (root in a container, over a folder of the machine's): without it not
/// even the worker's own folder could be reached. What it opens Landlock decides in any case.
fn drop_capabilities(confinement: &Confinement<'_>) -> io::Result<()> {
    let failed = |error: caps::errors::CapsError| io::Error::other(format!("drop capabilities: {error}"));
    let held = |set| caps::read(None, set).map_err(failed);
    if held(CapSet::Effective)?.contains(&Capability::CAP_SETPCAP) {
        for capability in held(CapSet::Bounding)? {
            caps::drop(None, CapSet::Bounding, capability).map_err(failed)?;
        }
    }
    // Ambient capabilities are of Linux 4.3; where there are none, there is nothing to clear.
    let _ = caps::clear(None, CapSet::Ambient);
    caps::clear(None, CapSet::Inheritable).map_err(failed)?;
    let mut kept = held(CapSet::Permitted)?;
    let is_needed =
        !confinement.read.into_iter().flatten().chain([confinement.write]).all(is_reached_by_owner);
    kept.retain(|capability| is_needed && *capability == Capability::CAP_DAC_OVERRIDE);
    for set in [CapSet::Effective, CapSet::Permitted] {
        caps::set(None, set, &kept).map_err(failed)?;
    }
    Ok(())
}

/// Whether this process reaches a folder by its modes alone, without being root.
fn is_reached_by_owner(folder: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let is_open = |folder: &Path| {
        std::fs::metadata(folder).is_ok_and(|about| about.uid() == own || about.mode() & 0o001 != 0)
    };
    folder.ancestors().filter(|part| !part.as_os_str().is_empty()).all(is_open)
}

fn limit(resource: Resource, most: u64) -> io::Result<()> {
    // A smaller limit that the box was started under stays.
    let most = rustix::process::getrlimit(resource).maximum.map_or(most, |maximum| most.min(maximum));
    rustix::process::setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    Ok(())
}

fn lock_files(confinement: &Confinement<'_>) -> Result<Holds, Box<dyn std::error::Error + Send + Sync>> {
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    // Everything but running programs and making devices and sockets.
    let writing = AccessFs::from_all(LANDLOCK_NEWEST)
        & !(AccessFs::Execute
            | AccessFs::MakeChar
            | AccessFs::MakeBlock
            | AccessFs::MakeSock
            | AccessFs::MakeFifo
            | AccessFs::MakeSym
            | AccessFs::IoctlDev);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK_NEWEST))?
        .handle_access(AccessNet::from_all(LANDLOCK_NEWEST))?
        .scope(Scope::from_all(LANDLOCK_NEWEST))?
        .create()?
        .add_rule(PathBeneath::new(PathFd::new(confinement.write)?, writing))?;
    for folder in confinement.read.into_iter().flatten() {
        ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new(folder)?, reading))?;
    }
    Ok(match ruleset.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced => Holds::Fully,
        RulesetStatus::PartiallyEnforced => Holds::Partly,
        RulesetStatus::NotEnforced => Holds::NotAtAll,
    })
}

fn lock_calls() -> io::Result<Holds> {
    // Compiling fails on a processor whose calls are not listed.
    let Ok(program) = filter() else { return Ok(Holds::NotAtAll) };
    match seccompiler::apply_filter(&program) {
        Ok(()) => Ok(Holds::Fully),
        // EINVAL and ENOSYS: a kernel without filters.
        Err(seccompiler::Error::Seccomp(error) | seccompiler::Error::Prctl(error))
            if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) =>
        {
            Ok(Holds::NotAtAll)
        }
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Calls that a worker may make with any arguments.
#[rustfmt::skip]
const CALLS: &[libc::c_long] = &[
    // Memory that holds data. (mmap and mprotect stand below, for they can also make code.)
    libc::SYS_brk, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_madvise,
    // Files; which ones, Landlock says. (openat stands below, for it can also empty a file.)
    libc::SYS_close, libc::SYS_read, libc::SYS_pread64, libc::SYS_readv, libc::SYS_preadv,
    libc::SYS_write, libc::SYS_pwrite64, libc::SYS_writev, libc::SYS_pwritev, libc::SYS_lseek, libc::SYS_fstat,
    libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_ftruncate,
    libc::SYS_fallocate, libc::SYS_unlinkat, libc::SYS_renameat, libc::SYS_renameat2, libc::SYS_mkdirat,
    libc::SYS_getdents64, libc::SYS_flock, libc::SYS_dup, libc::SYS_fadvise64,
    libc::SYS_readlinkat, libc::SYS_faccessat, libc::SYS_getcwd,
    // Threads of its own, waiting, and ending.
    libc::SYS_futex, libc::SYS_set_robust_list, libc::SYS_rseq, libc::SYS_sched_yield, libc::SYS_sched_getaffinity,
    libc::SYS_gettid, libc::SYS_getpid, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_sigaltstack, libc::SYS_restart_syscall,
    libc::SYS_nanosleep, libc::SYS_clock_nanosleep, libc::SYS_clock_gettime, libc::SYS_clock_getres,
    libc::SYS_gettimeofday, libc::SYS_ppoll, libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait,
    libc::SYS_eventfd2, libc::SYS_getrandom, libc::SYS_getrusage,
];

/// Older names of calls above, which only this processor's kernel has.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const CALLS_OLD: &[libc::c_long] = &[
    libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_unlink, libc::SYS_rename, libc::SYS_mkdir,
    libc::SYS_rmdir, libc::SYS_readlink, libc::SYS_poll, libc::SYS_epoll_wait, libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const CALLS_OLD: &[libc::c_long] = &[];

/// What clone(2) makes new namespaces by. unshare(2), setns(2) and clone3(2) are not on the list at all.
const NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

/// The compiled list. Whatever is not on it does not exist for the worker ("not implemented", which glibc and tokio
/// take as a reason to use an older call): sockets, execve, fork, ptrace, clone3, io_uring, setrlimit, mount and all the rest.
fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = std::env::consts::ARCH.try_into()?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in CALLS.iter().chain(CALLS_OLD) {
        rules.insert(*call, Vec::new());
    }
    let when = |argument: u8, length: SeccompCmpArgLen, operator: SeccompCmpOp, value: u64| {
        SeccompCondition::new(argument, length, operator, value)
    };
    use SeccompCmpArgLen::{Dword, Qword};
    use SeccompCmpOp::{Eq, MaskedEq};
    // Opening to read and emptying the file at once: Landlock before its third version takes that for reading.
    let opening = |flags: u8| {
        let accesses = |access: libc::c_int| {
            SeccompRule::new(vec![when(flags, Dword, MaskedEq(libc::O_ACCMODE as u64), access as u64)?])
        };
        let as_it_is = when(flags, Dword, MaskedEq(libc::O_TRUNC as u64), 0)?;
        Ok::<_, seccompiler::BackendError>(vec![
            SeccompRule::new(vec![as_it_is])?,
            accesses(libc::O_WRONLY)?,
            accesses(libc::O_RDWR)?,
        ])
    };
    rules.insert(libc::SYS_openat, opening(2)?);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, opening(1)?);
    // Of fcntl(2) what a copy of a descriptor takes. It could also have signals sent to other processes, which Landlock
    // refuses from its sixth version on.
    let commands = [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_DUPFD, libc::F_DUPFD_CLOEXEC];
    let command = |command: libc::c_int| SeccompRule::new(vec![when(1, Dword, Eq, command as u64)?]);
    rules.insert(libc::SYS_fcntl, commands.map(command).into_iter().collect::<Result<_, _>>()?);
    // A thread, never a process, and in the same namespaces.
    let thread = (libc::CLONE_THREAD | libc::CLONE_VM) as u64;
    let thread = when(0, Qword, MaskedEq(thread | NAMESPACES), thread)?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![thread])?]);
    // No memory from which code could run.
    let no_code = || SeccompRule::new(vec![when(2, Dword, MaskedEq(libc::PROT_EXEC as u64), 0)?]);
    rules.insert(libc::SYS_mmap, vec![no_code()?]);
    rules.insert(libc::SYS_mprotect, vec![no_code()?]);
    // A thread's name, and nothing else that prctl(2) does.
    rules.insert(
        libc::SYS_prctl,
        vec![SeccompRule::new(vec![when(0, Dword, Eq, libc::PR_SET_NAME as u64)?])?],
    );
    // Its own limits, to read.
    rules.insert(
        libc::SYS_prlimit64,
        vec![SeccompRule::new(vec![when(0, Dword, Eq, 0)?, when(2, Qword, Eq, 0)?])?],
    );
    // abort(3) signals the own process.
    let own = u64::from(std::process::id());
    rules.insert(libc::SYS_tgkill, vec![SeccompRule::new(vec![when(0, Dword, Eq, own)?])?]);
    let refused = SeccompAction::Errno(libc::ENOSYS as u32);
    SeccompFilter::new(rules, refused, SeccompAction::Allow, arch)?.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_lets_no_way_out_through() {
        let out = [
            libc::SYS_socket,
            libc::SYS_socketpair,
            libc::SYS_connect,
            libc::SYS_bind,
            libc::SYS_sendto,
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_clone3,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_kill,
            libc::SYS_tkill,
            libc::SYS_pidfd_open,
            libc::SYS_pidfd_send_signal,
            libc::SYS_mount,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_bpf,
            libc::SYS_keyctl,
            libc::SYS_perf_event_open,
            libc::SYS_userfaultfd,
            libc::SYS_io_uring_setup,
            libc::SYS_memfd_create,
            libc::SYS_setrlimit,
            libc::SYS_open_by_handle_at,
            libc::SYS_chroot,
            libc::SYS_ioctl,
            libc::SYS_linkat,
            libc::SYS_symlinkat,
            libc::SYS_fchmod,
            libc::SYS_fchmodat,
            libc::SYS_fchownat,
            libc::SYS_truncate,
        ];
        for call in out {
            assert!(!CALLS.contains(&call) && !CALLS_OLD.contains(&call), "{call}");
        }
        filter().expect("the list compiles on this processor");
    }

    #[test]
    fn what_is_missing_is_said() {
        let all = SandboxSupport { landlock: Holds::Fully, seccomp: Holds::Fully };
        assert_eq!(all.warning(), None);
        let older = SandboxSupport { landlock: Holds::Partly, ..all };
        assert!(all.isolates() && older.isolates() && older.warning().is_some());
        for weak in [
            SandboxSupport { landlock: Holds::NotAtAll, ..all },
            SandboxSupport { seccomp: Holds::NotAtAll, ..all },
        ] {
            assert!(!weak.isolates() && weak.warning().is_some());
        }
        let none = SandboxSupport { landlock: Holds::NotAtAll, seccomp: Holds::NotAtAll };
        let text = none.warning().expect("a warning");
        assert!(text.contains("Landlock") && text.contains("seccomp"), "{text}");
    }
}
