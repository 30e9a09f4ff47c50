//! A throw-away PostgreSQL server on loopback, of the machine's own packages (Debian's `postgresql`). Tests that want one say
//! "skipped" where there is none.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The database's own administrator.
const ADMIN: &str = "admin";
/// Who may log in where: from the machine itself anybody, over TCP by a password.
const HBA: &str = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";

/// A server, which ends with this.
pub struct Server {
    folder: TempDir,
    bin: PathBuf,
    pub port: u16,
}

/// Where the machine keeps the server's programs.
fn programs() -> Option<PathBuf> {
    let of_packages = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> = of_packages.map(|version| version.path().join("bin")).collect();
    found.retain(|bin| bin.join("initdb").exists());
    found.sort();
    found.pop()
}

impl Server {
    /// Starts one; none where the machine has no PostgreSQL, and says so.
    pub fn start() -> Option<Server> {
        let Some(bin) = programs() else {
            println!("skipped: there is no PostgreSQL on this machine (Debian's package `postgresql`)");
            return None;
        };
        let folder = TempDir::new().expect("a folder");
        let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("a port").port();
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(folder.path()));
        }
        let server = Server { folder, bin, port };
        let mut initdb = server.command("initdb");
        initdb.args([
            "--no-sync",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--username",
            ADMIN,
            "-D",
        ]);
        run(initdb.arg(server.data()));
        server.allow(HBA);
        server.again();
        Some(server)
    }

    /// What the server's programs are run by: it refuses to run as root.
    fn command(&self, program: &str) -> Command {
        let program = self.bin.join(program);
        if !is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(program).current_dir(self.folder.path());
        command
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Other rules of who may log in; they hold from the next start on.
    pub fn allow(&self, rules: &str) {
        fs::write(self.data().join("pg_hba.conf"), rules).expect("the rules are written");
    }

    /// Adds lines to the configuration; they hold from the next start on.
    pub fn configure(&self, lines: &str) {
        let path = self.data().join("postgresql.auto.conf");
        let before = fs::read_to_string(&path).unwrap_or_default();
        fs::write(path, before + lines).expect("the configuration is written");
    }

    /// A file in the folder of its data that it alone reads.
    pub fn secret_file(&self, name: &str, text: &str) {
        let path = self.data().join(name);
        fs::write(&path, text).expect("a file is written");
        run(Command::new("chmod").arg("600").arg(&path));
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(&path));
        }
    }

    /// Starts it again, on the same port.
    pub fn again(&self) {
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories={} -c fsync=off",
            self.port,
            self.folder.path().display()
        );
        let mut start = self.command("pg_ctl");
        start.args(["-w", "-s", "-o", &options, "-l"]).arg(self.folder.path().join("log"));
        run(start.arg("-D").arg(self.data()).arg("start").stdout(Stdio::null()).stderr(Stdio::null()));
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&self) {
        let mut stop = self.command("pg_ctl");
        run(stop.args(["-m", "immediate", "-w", "-s", "-D"]).arg(self.data()).arg("stop"));
    }

    /// What a statement answers, a line a row, the columns with `|` between them.
    pub fn sql(&self, database: &str, statement: &str) -> String {
        let said = self.psql(database, statement);
        assert!(said.status.success(), "{statement}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8_lossy(&said.stdout).trim_end().to_owned()
    }

    /// The same; none while it does not answer, or refuses the statement.
    pub fn try_sql(&self, database: &str, statement: &str) -> Option<String> {
        let said = self.psql(database, statement);
        said.status.success().then(|| String::from_utf8_lossy(&said.stdout).trim_end().to_owned())
    }

    fn psql(&self, database: &str, statement: &str) -> Output {
        let mut psql = Command::new(self.bin.join("psql"));
        psql.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-U",
            ADMIN,
            "-p",
            &self.port.to_string(),
        ]);
        psql.arg("-h").arg(self.folder.path()).args(["-d", database, "-c", statement]);
        psql.output().expect("psql runs")
    }

    /// A database, and a user who may make tables in it.
    pub fn database(&self, name: &str, user: &str, password: &str) {
        self.sql("postgres", &format!("CREATE ROLE {user} LOGIN PASSWORD '{password}'"));
        self.sql("postgres", &format!("CREATE DATABASE {name} OWNER {user}"));
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut stop = self.command("pg_ctl");
        stop.args(["-m", "immediate", "-w", "-s", "-D"]).arg(self.data()).arg("stop");
        let _ = stop.stderr(Stdio::null()).status();
    }
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|said| said.stdout.starts_with(b"0\n"))
}

fn run(command: &mut Command) {
    let said = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(said.success(), "{command:?}: {said}");
}
