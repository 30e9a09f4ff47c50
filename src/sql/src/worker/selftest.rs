//! `gleaner sql-worker --self-test`: a worker that is ordered to do what no worker may, so that the walls are tested
//! and not only the statements that stand before them.
//!
//! Everything is tried twice: before the process locks itself in, when it must succeed (an attempt that fails anyway
//! proves nothing), and after, when the kernel must refuse it. What a worker needs is tried too, and must go on.
//! It prints one JSON object and changes nothing but a file that it makes and removes again, and one that it is given to
//! spoil.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::sandbox::{self, Confinement, SandboxSupport};

/// What the self-test is told, as JSON in one argument.
#[derive(Debug, Serialize, Deserialize)]
pub struct SelfTest {
    /// The organization's folder of segments.
    pub read: PathBuf,
    /// The worker's own folder.
    pub write: PathBuf,
    /// Files that it must not read.
    pub files: Vec<PathBuf>,
    /// Folders that it must neither list nor write to.
    pub folders: Vec<PathBuf>,
    /// A file in `read` that may be spoiled; nothing needs it.
    pub scratch: PathBuf,
    /// A listening TCP address.
    pub tcp: SocketAddr,
    /// A listening Unix socket.
    pub unix: PathBuf,
}

/// One attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attempt {
    /// What was tried.
    pub what: String,
    /// Whether a worker may do it.
    pub allowed: bool,
    /// The error before the walls stood, if any.
    pub before: Option<String>,
    /// The error behind them.
    pub after: Option<String>,
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct SelfTestReport {
    /// What the kernel was able to hold.
    pub sandbox: SandboxSupport,
    /// Every attempt.
    pub attempts: Vec<Attempt>,
}

type Try = (String, bool, Box<dyn Fn() -> io::Result<()>>);

/// Runs the self-test that `order` describes and prints its report.
pub(super) fn run(order: &str) -> ExitCode {
    let report = serde_json::from_str(order).map_err(io::Error::from).and_then(|order| test(&order));
    match report.and_then(|report| Ok(serde_json::to_string(&report)?)) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("the self-test failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn test(order: &SelfTest) -> io::Result<SelfTestReport> {
    let tries = tries(order);
    let text = |result: io::Result<()>| result.err().map(|error| error.to_string());
    let before: Vec<_> = tries.iter().map(|(.., attempt)| text(attempt())).collect();
    let confinement = Confinement {
        read: [Some(&order.read), None],
        write: &order.write,
        data_bytes_max: 512 << 20,
        file_bytes_max: 1 << 20,
    };
    let sandbox = sandbox::enter(&confinement)?;
    let attempts = tries.into_iter().zip(before).map(|((what, allowed, attempt), before)| {
        let after = text(attempt());
        Attempt { what, allowed, before, after }
    });
    Ok(SelfTestReport { attempts: attempts.collect(), sandbox })
}

fn tries(order: &SelfTest) -> Vec<Try> {
    let mut tries: Vec<Try> = Vec::new();
    let mut forbidden = |what: String, attempt: Box<dyn Fn() -> io::Result<()>>| {
        tries.push((what, false, attempt));
    };
    for file in &order.files {
        let file = file.clone();
        forbidden(format!("read {}", file.display()), Box::new(move || read(&file)));
    }
    for folder in order.folders.iter().chain([&order.read]) {
        let shown = folder.display().to_string();
        let (folder, target) = (folder.clone(), folder.clone());
        forbidden(format!("write in {shown}"), Box::new(move || write(&target)));
        if folder != order.read {
            forbidden(format!("list {shown}"), Box::new(move || list(&folder)));
        }
    }
    let scratch = [(); 3].map(|()| order.scratch.clone());
    let [emptied, changed, locked] = scratch;
    forbidden("empty a segment by opening it to read".into(), Box::new(move || empty(&emptied)));
    forbidden("change the mode of a file".into(), Box::new(move || change_mode(&changed)));
    forbidden("lock a file through fcntl".into(), Box::new(move || lock_file(&locked)));
    let (tcp, unix) = (order.tcp, order.unix.clone());
    forbidden("connect over TCP".into(), Box::new(move || TcpStream::connect(tcp).map(drop)));
    forbidden("listen over TCP".into(), Box::new(|| TcpListener::bind("127.0.0.1:0").map(drop)));
    forbidden("open a UDP socket".into(), Box::new(|| UdpSocket::bind("127.0.0.1:0").map(drop)));
    forbidden("connect to a Unix socket".into(), Box::new(move || UnixStream::connect(&unix).map(drop)));
    let socket = order.write.join("own.sock");
    forbidden("make a Unix socket".into(), Box::new(move || make_socket(&socket)));
    forbidden("run a program".into(), Box::new(|| execute(Path::new("/bin/true"))));
    forbidden("run itself".into(), Box::new(|| execute(&std::env::current_exe()?)));
    forbidden("read its own environment".into(), Box::new(|| read(Path::new("/proc/self/environ"))));
    let parent = rustix::process::getppid();
    forbidden("signal its parent".into(), Box::new(move || signal(parent)));
    forbidden("raise its limits".into(), Box::new(raise_limits));
    let (segments, own) = (order.read.clone(), order.write.clone());
    tries.push(("read its segments".into(), true, Box::new(move || read_all(&segments))));
    tries.push(("write in its own folder".into(), true, Box::new(move || write(&own))));
    tries.push(("start a thread".into(), true, Box::new(start_thread)));
    tries
}

fn read(file: &Path) -> io::Result<()> {
    let mut byte = [0];
    fs::File::open(file)?.read(&mut byte).map(drop)
}

fn read_all(folder: &Path) -> io::Result<()> {
    for file in fs::read_dir(folder)? {
        read(&file?.path())?;
    }
    Ok(())
}

fn list(folder: &Path) -> io::Result<()> {
    fs::read_dir(folder).map(drop)
}

fn write(folder: &Path) -> io::Result<()> {
    let path = folder.join("self-test.tmp");
    fs::File::create(&path)?.write_all(b"x")?;
    fs::remove_file(path)
}

/// std refuses to empty what is opened to read only, so the flag is added behind its back.
fn empty(file: &Path) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().read(true).custom_flags(libc::O_TRUNC).open(file).map(drop)
}

fn change_mode(file: &Path) -> io::Result<()> {
    fs::set_permissions(file, fs::metadata(file)?.permissions())
}

/// One of the commands of fcntl(2) that no worker needs, in the place of those that reach other processes.
fn lock_file(file: &Path) -> io::Result<()> {
    let file = fs::File::open(file)?;
    Ok(rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::LockShared)?)
}

fn make_socket(path: &Path) -> io::Result<()> {
    let made = UnixListener::bind(path).map(drop);
    made.and_then(|()| fs::remove_file(path))
}

fn execute(program: &Path) -> io::Result<()> {
    // Of itself it asks for help, which ends at once.
    let mut command = Command::new(program);
    command.arg("--help").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().map(drop)
}

fn signal(process: Option<Pid>) -> io::Result<()> {
    let process = process.ok_or_else(|| io::Error::other("no process"))?;
    Ok(rustix::process::test_kill_process(process)?)
}

fn raise_limits() -> io::Result<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    Ok(setrlimit(Resource::Core, getrlimit(Resource::Core))?)
}

fn start_thread() -> io::Result<()> {
    let thread = std::thread::Builder::new().spawn(|| vec![1_u8; 1 << 20].len())?;
    thread.join().map(drop).map_err(|_| io::Error::other("the thread panicked"))
}
