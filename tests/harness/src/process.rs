//! The binary in a process of its own, so that it can be killed.

use super::binary;
use server::client::Client;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// `gleaner serve` over a folder.
pub struct Process {
    child: Child,
    pub url: String,
    data_dir: PathBuf,
}

impl Process {
    /// Starts the binary; returns when it says where it listens.
    pub fn start(data_dir: &Path, settings: &[(&str, &str)]) -> Process {
        Process::start_binary(&binary(), data_dir, settings)
    }

    /// The same with arguments.
    pub fn start_with(data_dir: &Path, settings: &[(&str, &str)], arguments: &[&str]) -> Process {
        Process::launch(&binary(), data_dir, settings, arguments, &[], Stdio::inherit())
    }

    /// The same with a copy of the binary.
    pub fn start_binary(binary: &Path, data_dir: &Path, settings: &[(&str, &str)]) -> Process {
        Process::launch(binary, data_dir, settings, &[], &[], Stdio::inherit())
    }

    /// The same with a standard error of the caller's.
    pub fn start_logging_to(data_dir: &Path, settings: &[(&str, &str)], stderr: Stdio) -> Process {
        Process::launch(&binary(), data_dir, settings, &[], &[], stderr)
    }

    /// The same with variables of its environment, as they are.
    pub fn start_under(
        data_dir: &Path,
        settings: &[(&str, &str)],
        environment: &[(&str, OsString)],
    ) -> Process {
        Process::launch(&binary(), data_dir, settings, &[], environment, Stdio::inherit())
    }

    fn launch(
        binary: &Path,
        data_dir: &Path,
        settings: &[(&str, &str)],
        arguments: &[&str],
        environment: &[(&str, OsString)],
        stderr: Stdio,
    ) -> Process {
        let mut command = Command::new(binary);
        command
            .arg("serve")
            .args(arguments)
            .current_dir(data_dir.parent().expect("the data folder has a parent"))
            .env("GLEANER_SERVER__LISTEN", "127.0.0.1:0")
            .env("GLEANER_STORAGE__DATA_DIR", data_dir)
            .env("GLEANER_LOG__LEVEL", "error")
            .stdout(Stdio::piped())
            .stderr(stderr);
        command.envs(environment.iter().map(|(key, value)| (key, value)));
        for (key, value) in settings {
            command.env(format!("GLEANER_{key}"), value);
        }
        let mut child = command.spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output is piped")).lines();
        let line = lines.next().expect("it says where it listens").expect("its output is text");
        let url = line.strip_prefix("Gleaner listens at ").expect("it says where it listens").to_owned();
        Process { child, url, data_dir: data_dir.to_owned() }
    }

    pub fn client(&self) -> Client {
        Client::new(self.url.clone())
    }

    pub fn socket(&self) -> PathBuf {
        self.data_dir.join("admin.sock")
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// A number of /proc/PID/status; memory is counted in KiB there.
    pub fn counted(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = line.expect("the kernel counts it").split_whitespace().next().unwrap_or_default();
        number.parse().expect("a number")
    }

    /// The most memory that it has had, as the kernel counts it.
    pub fn memory_most_bytes(&self) -> u64 {
        self.counted("VmHWM") << 10
    }

    /// SIGKILL: no drain, no flush.
    pub fn kill(mut self) {
        self.child.kill().expect("the process is ours");
        self.child.wait().expect("it is reaped");
    }

    /// SIGTERM, and the exit code after the drain.
    pub fn terminate(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("the process is ours");
        self.child.wait().expect("it is reaped").code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A test that failed leaves no process behind; one that ended it already gets an error, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
