//! A PostgreSQL of its own for one test: Debian's package over a temporary folder, spoken to through a Unix socket.
//!
//! Where the package is absent there is none, and a test that needs it says so and passes. The protocol is the simple
//! query of PostgreSQL's version 3.0, which is all that a comparison needs.

use base::clock::Timestamp;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const USER: &str = "gleaner";

/// A running server; it ends when this is dropped.
pub struct Postgres {
    server: Child,
    dir: TempDir,
}

/// What a statement gave: the columns with their types' numbers, and the rows as text.
#[derive(Debug)]
pub struct Table {
    pub columns: Vec<(String, u32)>,
    pub rows: Vec<Vec<Option<String>>>,
}

/// One connection.
pub struct Connection(UnixStream);

impl Postgres {
    /// Starts a server; none, and a line about it, where PostgreSQL is not installed.
    pub fn start() -> Option<Postgres> {
        let Some(programs) = programs() else {
            println!("skipped: no PostgreSQL under /usr/lib/postgresql (apt-get install postgresql)");
            return None;
        };
        let dir = TempDir::new().expect("a temporary folder");
        let owner = owner();
        if let Some((user, group)) = owner {
            chown(dir.path(), Some(user), Some(group)).expect("the folder gets its owner");
        }
        let command = |program: &str| {
            let mut command = Command::new(programs.join(program));
            command.current_dir(dir.path()).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
            if let Some((user, group)) = owner {
                command.uid(user).gid(group);
            }
            command
        };
        let data = dir.path().join("data");
        let made = command("initdb")
            .args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--lc-collate=C", "--lc-ctype=C.UTF-8"])
            .args(["--username", USER, "--pgdata"])
            .arg(&data)
            .output()
            .expect("initdb starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let log = std::fs::File::create(dir.path().join("log")).expect("a log");
        let server = command("postgres")
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(dir.path())
            .args([
                "-c",
                "listen_addresses=",
                "-c",
                "fsync=off",
                "-c",
                "timezone=UTC",
                "-c",
                "max_connections=10",
            ])
            .args(["-c", "extra_float_digits=1", "-c", "shared_buffers=16MB"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("postgres starts");
        let postgres = Postgres { server, dir };
        let begun = Instant::now();
        while Connection::open(&postgres.socket()).is_err() {
            let log = || std::fs::read_to_string(postgres.dir.path().join("log")).unwrap_or_default();
            assert!(begun.elapsed() < Duration::from_secs(60), "PostgreSQL does not answer: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(postgres)
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join(".s.PGSQL.5432")
    }

    pub fn connect(&self) -> Connection {
        Connection::open(&self.socket()).expect("PostgreSQL answers")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGINT: end all sessions and stop.
        let id = i32::try_from(self.server.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(id) = id {
            let _ = rustix::process::kill_process(id, rustix::process::Signal::INT);
        }
        let begun = Instant::now();
        while matches!(self.server.try_wait(), Ok(None)) && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The folder of the newest installed version's programs.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|entry| entry.path()).max_by_key(|path| number(path))?.join("bin");
    newest.join("initdb").exists().then_some(newest)
}

/// Whom the server runs as: it refuses to run as root.
fn owner() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let of = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    of("postgres").or_else(|| of("nobody"))
}

impl Connection {
    fn open(socket: &Path) -> std::io::Result<Connection> {
        let mut connection = Connection(UnixStream::connect(socket)?);
        let mut start = 196_608_u32.to_be_bytes().to_vec();
        for text in ["user", USER, "database", "postgres"] {
            start.extend_from_slice(text.as_bytes());
            start.push(0);
        }
        start.push(0);
        let length = u32::try_from(start.len() + 4).expect("it is short");
        connection.0.write_all(&[&length.to_be_bytes()[..], &start].concat())?;
        match connection.answer()? {
            Ok(_) => Ok(connection),
            Err(refusal) => Err(std::io::Error::other(refusal)),
        }
    }

    /// Runs one statement; an error is the server's own text.
    pub fn query(&mut self, sql: &str) -> Result<Table, String> {
        let length = u32::try_from(sql.len() + 5).expect("a statement is short");
        let message = [b"Q", &length.to_be_bytes()[..], sql.as_bytes(), b"\0"].concat();
        self.0.write_all(&message).expect("PostgreSQL listens");
        self.answer().expect("PostgreSQL answers")
    }

    /// Reads messages until the server is ready for the next statement.
    fn answer(&mut self) -> std::io::Result<Result<Table, String>> {
        let mut table = Table { columns: Vec::new(), rows: Vec::new() };
        let mut refusal = None;
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head)?;
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let mut body = vec![0; length - 4];
            self.0.read_exact(&mut body)?;
            let mut body = Reader(&body);
            match head[0] {
                b'T' => table.columns = (0..body.u16()).map(|_| body.column()).collect(),
                b'D' => table.rows.push((0..body.u16()).map(|_| body.value()).collect()),
                b'E' => refusal = Some(body.refusal()),
                b'Z' => return Ok(refusal.map_or(Ok(table), Err)),
                _ => {}
            }
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, bytes: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(bytes);
        self.0 = rest;
        taken.to_vec()
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.take(2).try_into().expect("two bytes"))
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().expect("four bytes"))
    }

    fn text(&mut self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).expect("an end");
        let text = self.take(end);
        self.take(1);
        String::from_utf8(text).expect("UTF-8")
    }

    fn column(&mut self) -> (String, u32) {
        let name = self.text();
        self.take(6);
        let kind = self.u32();
        self.take(8);
        (name, kind)
    }

    fn value(&mut self) -> Option<String> {
        match self.u32() {
            u32::MAX => None,
            length => Some(String::from_utf8(self.take(length as usize)).expect("UTF-8")),
        }
    }

    /// The message and its code, as `42703: column "x" does not exist`.
    fn refusal(&mut self) -> String {
        let (mut code, mut message) = (String::new(), String::new());
        loop {
            match self.take(1)[0] {
                0 => return format!("{code}: {message}"),
                b'C' => code = self.text(),
                b'M' => message = self.text(),
                _ => drop(self.text()),
            }
        }
    }
}

impl Table {
    /// The rows as the console writes values, in the columns' order. Numbers that the console gives as text because they
    /// are exact come as numbers here; see [`comparable`].
    pub fn values(&self) -> Vec<Vec<Value>> {
        let row = |row: &Vec<Option<String>>| {
            let cells = row.iter().zip(&self.columns);
            cells
                .map(|(text, (_, kind))| text.as_deref().map_or(Value::Null, |text| value(*kind, text)))
                .collect()
        };
        self.rows.iter().map(row).collect()
    }
}

/// One value by the number of its type (pg_type.dat).
fn value(kind: u32, text: &str) -> Value {
    let number = |text: &str| comparable(&json!(text));
    match kind {
        16 => json!(text == "t"),
        20 | 21 | 23 | 700 | 701 | 1700 => number(text),
        114 | 3802 => comparable(&serde_json::from_str(text).unwrap_or_else(|_| json!(text))),
        1000 => list(text, 16),
        1005 | 1007 | 1016 | 1021 | 1022 | 1231 => list(text, 701),
        1009 | 1015 => list(text, 25),
        1082 | 1083 | 1186 => json!(text),
        1114 => json!(moment(&text.replace(' ', "T"), "Z")),
        1184 => json!(moment(&text.replace(' ', "T"), "")),
        _ => json!(text),
    }
}

/// An array in PostgreSQL's notation: `{a,"b c",NULL}`, of one dimension.
fn list(text: &str, kind: u32) -> Value {
    let inner = text.trim_start_matches('{').trim_end_matches('}');
    let mut items = Vec::new();
    let (mut item, mut is_text, mut quoted, mut chars) = (String::new(), false, false, inner.chars());
    let end = |item: &mut String, is_text: &mut bool| {
        let text = std::mem::take(item);
        let was_text = std::mem::take(is_text);
        let null = text == "NULL" && !was_text;
        if null { Value::Null } else { value(kind, &text) }
    };
    while let Some(char) = chars.next() {
        match char {
            '"' => (quoted, is_text) = (!quoted, true),
            '\\' => item.extend(chars.next()),
            ',' if !quoted => items.push(end(&mut item, &mut is_text)),
            other => item.push(other),
        }
    }
    if !inner.is_empty() {
        items.push(end(&mut item, &mut is_text));
    }
    Value::Array(items)
}

fn moment(text: &str, zone: &str) -> String {
    let zoned = if zone.is_empty() { text.replace("+00", "Z") } else { format!("{text}{zone}") };
    zoned.parse::<Timestamp>().map_or_else(|_| in_milliseconds(&zoned), |time| time.to_string())
}

/// A time that is none of RFC 3339 as the console writes it: `9999-12-31T23:59:59Z`, `0001-12-31T19:00:00TBCZ`.
fn in_milliseconds(text: &str) -> String {
    let (text, era) = match text.trim_end_matches('Z').split_once("TBC") {
        Some((text, _)) => (text, " BC"),
        None => (text.trim_end_matches('Z'), ""),
    };
    let text = text.trim_end_matches('Z');
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}.{:0<3}Z{era}", fraction.chars().take(3).collect::<String>())
}

/// A value in which two right answers are equal: numbers to twelve digits, whether they came as numbers or as text.
pub fn comparable(value: &Value) -> Value {
    let rounded = |number: f64| match number {
        _ if !number.is_finite() => json!(number.to_string()),
        _ if number == 0.0 => json!("0"),
        number => json!(format!("{number:.11e}")),
    };
    match value {
        Value::Number(number) => rounded(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => match text.parse::<f64>() {
            Ok(number) if !text.trim().is_empty() => rounded(number),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(comparable).collect(),
        other => other.clone(),
    }
}
