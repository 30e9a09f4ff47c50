//! Finding Chromium, starting it, and seeing that nothing of it is left behind.
//!
//! The browser and all its helpers are one process group, which is killed as one. If the box itself is killed, the
//! browser's pipe closes, and it ends by itself. Its profile is a folder of its own under the data folder, removed with it;
//! pages live in contexts that keep nothing on disk.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use command_fds::{CommandFdExt, FdMapping};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpgid};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::protocol::Client;

/// What Chromium and its kin are called, the best known first.
const NAMES: [&str; 6] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome-headless-shell",
    "headless-shell",
];
/// How long it may take to say its version. A cold start on a loaded small machine takes some seconds.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it may take to end when it is asked to.
const END_TIMEOUT: Duration = Duration::from_secs(3);
/// How often, and with which pauses, its folder is tried to be removed.
const REMOVALS_MAX: u32 = 20;
const REMOVAL_PAUSE: Duration = Duration::from_millis(100);
/// The heap of one page's scripts, MiB; beyond it the page crashes, and only that page.
const SCRIPT_HEAP_MB: u32 = 512;
/// How much of what it complains about is kept.
const COMPLAINT_BYTES_MAX: usize = 8 << 10;

/// What it is started with, beside its profile. Everything that calls home, keeps something or asks somebody is off;
/// `addresses`: only the gate may be connected to, and not even names are looked up ([`super::gate`]).
const FLAGS: [&str; 36] = [
    "--headless",
    "--remote-debugging-pipe",
    "--no-startup-window",
    "--no-first-run",
    "--no-default-browser-check",
    // Addresses. A proxy that is none, for what belongs to no page; pages have the gate's.
    "--proxy-server=http://127.0.0.1:1",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--no-pings",
    "--disable-domain-reliability",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-client-side-phishing-detection",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-component-extensions-with-background-pages",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-features=HttpsUpgrades,PreconnectToSearch,NavigationPredictor,OptimizationHints,OptimizationGuideModelDownloading,Translate,MediaRouter,DialMediaRouteProvider,AutofillServerCommunication,CertificateTransparencyComponentUpdater,NetworkTimeServiceQuerying,WebTransport",
    // Pages that run unseen run as fast as seen ones, and open no others.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--block-new-web-contents",
    "--disable-auto-reload",
    "--deny-permission-prompts",
    "--disable-notifications",
    "--password-store=basic",
    "--mute-audio",
    "--hide-scrollbars",
    "--window-size=1366,768",
    "--disable-gpu",
    // Containers give 64 MiB there.
    "--disable-dev-shm-usage",
];

/// The browser to start: the one that is configured, or the first that is found in `path` (`PATH`).
pub fn find(configured: &Path, path: Option<&OsStr>) -> Option<PathBuf> {
    if !configured.as_os_str().is_empty() {
        return Some(configured.to_owned());
    }
    let folders: Vec<PathBuf> = path.map(|path| std::env::split_paths(path).collect()).unwrap_or_default();
    let all = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    all.into_iter().find(|file| is_executable(file))
}

/// Whether it is a file that can be run.
pub fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// A running browser.
pub struct Process {
    pub client: Client,
    /// What it calls itself towards servers.
    pub user_agent: String,
    child: Child,
    group: Group,
    profile: PathBuf,
}

/// The browser's process group; killed when this is dropped, unless everything in it has ended.
struct Group(Option<Pid>);

impl Group {
    fn kill(&self) {
        if let Some(group) = self.0 {
            // It may have ended by itself.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Process {
    /// Starts a browser with a profile folder of its own. The error is for operators and customers.
    pub async fn start(executable: &Path, sandbox: bool, profile: PathBuf) -> Result<Process, String> {
        if sandbox && rustix::process::geteuid().is_root() {
            return Err("Chromium does not run as root with its sandbox: the box should run as a user of its own, or \
                        its operator sets browser.sandbox = false"
                .to_owned());
        }
        let failed = |what: &str, e: io::Error| format!("{what}: {e}");
        tokio::fs::create_dir_all(&profile).await.map_err(|e| failed("its profile cannot be made", e))?;
        let (its_input, to_it) = io::pipe().map_err(|e| failed("no pipe", e))?;
        let (from_it, its_output) = io::pipe().map_err(|e| failed("no pipe", e))?;
        let to_it = pipe::Sender::from_owned_fd(OwnedFd::from(to_it)).map_err(|e| failed("no pipe", e))?;
        let from_it =
            pipe::Receiver::from_owned_fd(OwnedFd::from(from_it)).map_err(|e| failed("no pipe", e))?;
        let mut command = std::process::Command::new(executable);
        command
            .args(FLAGS)
            .arg(format!("--js-flags=--max-old-space-size={SCRIPT_HEAP_MB}"))
            .arg(format!("--user-data-dir={}", profile.display()))
            .args((!sandbox).then_some("--no-sandbox"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &profile)
            .env("TMPDIR", &profile)
            .env("LANG", "en_US.UTF-8")
            .current_dir(&profile)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .fd_mappings(vec![
                FdMapping { parent_fd: OwnedFd::from(its_input), child_fd: 3 },
                FdMapping { parent_fd: OwnedFd::from(its_output), child_fd: 4 },
            ])
            .map_err(|e| format!("no pipe: {e}"))?;
        let mut command = Command::from(command);
        command.kill_on_drop(true);
        let spawned = command.spawn();
        // It holds the browser's ends of the pipes, whose closing is what tells of the browser's end.
        drop(command);
        let mut child =
            spawned.map_err(|e| failed(&format!("{} cannot be started", executable.display()), e))?;
        let group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
        let complaints = Arc::<Mutex<Vec<u8>>>::default();
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(keep(stderr, complaints.clone()));
        }
        let client = Client::new(to_it, from_it);
        let version = timeout(START_TIMEOUT, client.call(None, "Browser.getVersion", json!({}))).await;
        let mut process = Process { client, user_agent: String::new(), child, group, profile };
        match version {
            Ok(Ok(version)) => {
                process.user_agent = text(&version, "userAgent");
                tracing::info!(version = text(&version, "product"), "a browser has been started");
                Ok(process)
            }
            _ => {
                process.end().await;
                Err(format!("Chromium did not start: {}", complaint(&complaints.lock())))
            }
        }
    }

    /// The process group, as the kernel numbers it.
    pub fn group(&self) -> Option<i32> {
        self.group.0.map(|pid| pid.as_raw_nonzero().get())
    }

    /// Waits until the browser has ended by itself.
    pub async fn ended(&mut self) {
        // An error would mean that it is not ours to wait for, which is as good as ended.
        let _ = self.child.wait().await;
    }

    /// Ends it: by asking, by killing, and by taking its folder away.
    pub async fn end(mut self) {
        let asked = self.client.call(None, "Browser.close", json!({}));
        let _ = timeout(END_TIMEOUT, async { tokio::join!(asked, self.child.wait()) }).await;
        self.group.kill();
        let _ = self.child.wait().await;
        if let Some(group) = self.group.0.take() {
            // Where the box is a container's first process, the browser's helpers have become its children.
            while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
        }
        for _ in 0..REMOVALS_MAX {
            match tokio::fs::remove_dir_all(&self.profile).await {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    // A helper that has been killed may not have ended yet.
                    tracing::debug!(%error, profile = %self.profile.display(), "a browser's profile is still in use");
                    tokio::time::sleep(REMOVAL_PAUSE).await;
                }
                _ => return,
            }
        }
    }
}

/// A field that should be text.
pub fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

/// Keeps the end of what the browser complains about.
async fn keep(mut stderr: tokio::process::ChildStderr, kept: Arc<Mutex<Vec<u8>>>) {
    let mut chunk = [0; 1024];
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        let mut kept = kept.lock();
        kept.extend_from_slice(&chunk[..count]);
        let surplus = kept.len().saturating_sub(COMPLAINT_BYTES_MAX);
        kept.drain(..surplus);
    }
}

/// The line that says most: about the sandbox or a library if there is one, or else the last.
fn complaint(stderr: &[u8]) -> String {
    let stderr = String::from_utf8_lossy(stderr);
    let lines = || stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let telling = lines().find(|line| line.contains("sandbox") || line.contains("shared libraries"));
    let line = telling.or_else(|| lines().next_back()).unwrap_or("it said nothing");
    let line: String = line.chars().filter(|c| !c.is_control()).take(300).collect();
    match line.contains("No usable sandbox") {
        true => {
            format!("{line} (the machine does not let it build one; browser.sandbox = false runs it without)")
        }
        false => line,
    }
}

/// Memory that the processes of a group have for themselves, in bytes; files and what they share is not counted. 0 where
/// the kernel does not tell.
pub fn group_bytes(group: i32) -> u64 {
    let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
    let kilobytes_of = |folder: PathBuf| {
        // pid (name, which may hold anything) state parent group …
        let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
        let found: i32 = stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()?;
        if found != group {
            return None;
        }
        let status = std::fs::read_to_string(folder.join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let is_process =
        |name: &OsStr| name.to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
    let folders =
        processes.flatten().filter(|entry| is_process(&entry.file_name())).map(|entry| entry.path());
    folders.filter_map(kilobytes_of).sum::<u64>() * 1_024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configured_browser_wins_and_the_best_known_name_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let path = std::env::join_paths([folder.path(), other.path()]).unwrap();
        assert_eq!(find(Path::new(""), Some(&path)), None);
        assert_eq!(find(Path::new("/opt/chrome"), Some(&path)), Some(PathBuf::from("/opt/chrome")));
        let make = |folder: &Path, name: &str, mode| {
            let file = folder.join(name);
            std::fs::write(&file, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            file
        };
        make(folder.path(), "chromium", 0o600);
        std::fs::create_dir(other.path().join("chromium-browser")).unwrap();
        assert_eq!(find(Path::new(""), Some(&path)), None, "neither a file that cannot be run, nor a folder");
        let chrome = make(folder.path(), "google-chrome", 0o700);
        assert_eq!(find(Path::new(""), Some(&path)), Some(chrome));
        let chromium = make(other.path(), "chromium", 0o700);
        assert_eq!(find(Path::new(""), Some(&path)), Some(chromium), "by name first, then by folder");
    }

    #[test]
    fn a_complaint_is_the_line_that_says_most() {
        let said =
            complaint(b"[1:ERROR:dbus] no bus\n[2:FATAL] No usable sandbox! Update your kernel.\nmore\n");
        assert!(said.contains("No usable sandbox!") && said.contains("browser.sandbox = false"), "{said}");
        assert_eq!(complaint(b"first\nlast \n\n"), "last");
        assert_eq!(complaint(b""), "it said nothing");
    }

    #[test]
    fn the_memory_of_a_group_is_seen() {
        let own = rustix::process::getpgrp().as_raw_nonzero().get();
        assert!(group_bytes(own) > 1 << 20, "this process alone has more");
        assert_eq!(group_bytes(i32::MAX), 0);
    }

    #[tokio::test]
    async fn what_is_no_browser_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let profile = || folder.path().join("profile");
        let missing =
            Process::start(Path::new("/nonexistent/chromium"), false, profile()).await.err().unwrap();
        assert!(missing.contains("/nonexistent/chromium cannot be started"), "{missing}");
        let script = folder.path().join("not-chromium");
        std::fs::write(
            &script,
            "#!/bin/sh\necho error while loading shared libraries: libnss3.so >&2\nexit 1\n",
        )
        .unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
        let broken = Process::start(&script, false, profile()).await.err().unwrap();
        assert!(broken.starts_with("Chromium did not start"), "{broken}");
        assert!(!profile().exists());
    }
}
