//! A server of OpenSSH on loopback, as the machine has it (Debian's `openssh-server`), with keys and a configuration of its own.
//! Tests that want one say "skipped" where there is none.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROGRAM: &str = "/usr/sbin/sshd";

/// A server, which ends with this.
pub struct Sshd {
    child: Option<Child>,
    dir: TempDir,
    pub address: SocketAddr,
    pub user: String,
}

fn run(command: &mut Command) -> String {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

fn keygen(path: &Path, kind: &str) {
    run(Command::new("ssh-keygen").args(["-q", "-N", "", "-t", kind, "-f"]).arg(path));
}

impl Sshd {
    /// None, and a message, where the machine has no server.
    pub fn start() -> Option<Sshd> {
        if !Path::new(PROGRAM).exists() {
            println!("skipped: there is no {PROGRAM} on this machine (Debian's package `openssh-server`)");
            return None;
        }
        let dir = TempDir::new().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let user = run(Command::new("id").arg("-un"));
        if user == "root" {
            // What it shuts itself into before anybody is known.
            fs::create_dir_all("/run/sshd").unwrap();
        }
        for (name, kind) in
            [("host", "ed25519"), ("host2", "ecdsa"), ("login", "ed25519"), ("other", "ecdsa")]
        {
            keygen(&dir.path().join(name), kind);
        }
        fs::copy(dir.path().join("login.pub"), dir.path().join("authorized")).unwrap();
        fs::create_dir(dir.path().join("files")).unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        let config = format!(
            "ListenAddress 127.0.0.1\nPort {}\nHostKey {}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             UsePAM no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             LogLevel ERROR\nSubsystem sftp internal-sftp -d {}\n",
            address.port(),
            at("host"),
            at("host2"),
            at("authorized"),
            at("files"),
        );
        fs::write(dir.path().join("config"), config).unwrap();
        let mut sshd = Sshd { child: None, dir, address, user };
        sshd.again();
        Some(sshd)
    }

    /// Starts it again, on the same port.
    pub fn again(&mut self) {
        let child = Command::new(PROGRAM)
            .arg("-D")
            .arg("-f")
            .arg(self.dir.path().join("config"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
        let begun = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "sshd does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it, and with it every session: their processes are its children.
    pub fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let children =
            fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap_or_default();
        child.kill().unwrap();
        child.wait().unwrap();
        for id in children.split_whitespace() {
            Command::new("kill").args(["-9", id]).stderr(Stdio::null()).status().unwrap();
        }
    }

    pub fn files(&self) -> PathBuf {
        self.dir.path().join("files")
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap()
    }

    /// As `ssh-keygen -l` says it.
    pub fn fingerprint(&self, name: &str) -> String {
        let said = run(Command::new("ssh-keygen").arg("-lf").arg(self.dir.path().join(name)));
        said.split_whitespace().nth(1).unwrap().to_owned()
    }

    /// As who sets an output up gets it.
    pub fn keyscan(&self) -> String {
        let port = self.address.port().to_string();
        run(Command::new("ssh-keyscan")
            .args(["-t", "ed25519", "-p", &port, "127.0.0.1"])
            .stderr(Stdio::null()))
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.kill();
    }
}
