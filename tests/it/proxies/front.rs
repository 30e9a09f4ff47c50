//! nginx and Caddy in front of a box, with the configurations that are shipped (packaging/proxies), and a caller who knows nothing
//! but the address that they give the box.

use crate::harness::eventually;
use crate::tidy::root;
use serde_json::Value;
use std::io::Read;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// What stands in front, and how it passes requests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// As the example has it, below a path that is kept.
    NginxPath,
    /// The path is taken off.
    NginxStripped,
    /// To a Unix socket.
    NginxSocket,
    /// On a host of its own.
    NginxHost,
    CaddyPath,
    CaddyStripped,
    CaddySocket,
}

impl Way {
    pub(super) fn program(self) -> &'static str {
        match self {
            Way::CaddyPath | Way::CaddyStripped | Way::CaddySocket => "caddy",
            _ => "nginx",
        }
    }

    pub(super) fn host(self) -> &'static str {
        if self == Way::NginxHost { "gleaner.example" } else { "tools.example" }
    }

    /// The path that the box is below.
    pub(super) fn path(self) -> &'static str {
        if self == Way::NginxHost { "" } else { "/gleaner" }
    }

    /// Whether the proxy reaches the box by a Unix socket.
    pub(super) fn is_socket(self) -> bool {
        matches!(self, Way::NginxSocket | Way::CaddySocket)
    }

    /// The example, with what an operator changes in it.
    fn example(self) -> (&'static str, &'static [(&'static str, &'static str)]) {
        match self {
            Way::NginxPath => ("nginx-path.conf", &[]),
            Way::NginxStripped => {
                ("nginx-path.conf", &[("proxy_pass http://gleaner;", "proxy_pass http://gleaner/;")])
            }
            Way::NginxSocket => ("nginx-path.conf", &[("server 127.0.0.1:8420;", "server unix:BOX;")]),
            Way::NginxHost => ("nginx-host.conf", &[]),
            Way::CaddyPath => ("Caddyfile", &[]),
            Way::CaddyStripped => (
                "Caddyfile",
                &[
                    ("handle @gleaner {", "handle_path /gleaner/* {"),
                    ("@gleaner path /gleaner /gleaner/*", "redir /gleaner /gleaner/ 308"),
                ],
            ),
            Way::CaddySocket => ("Caddyfile", &[("reverse_proxy 127.0.0.1:8420", "reverse_proxy unix/BOX")]),
        }
    }
}

/// Where a program of Debian's is, as somebody finds it who is no administrator.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/bin", "/usr/local/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// A place for a proxy: its port is known before the box begins, whose links lead there.
pub(super) struct Site {
    pub(super) way: Way,
    program: PathBuf,
    folder: TempDir,
    port: u16,
    /// How people reach the box.
    pub(super) url: String,
}

/// A running proxy.
pub(super) struct Front {
    pub(super) site: Site,
    proxy: Child,
}

/// The header of a credential, as curl takes it; without a value curl sends none.
fn bearer(credential: &str) -> String {
    match credential {
        "" => "authorization:".to_owned(),
        credential => format!("authorization: Bearer {credential}"),
    }
}

/// What came back.
pub(super) struct Answer {
    pub(super) status: u16,
    headers: String,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> &str {
        let mut lines = self.headers.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value.trim())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {} {}", self.status, self.body))
    }
}

impl Site {
    /// None where the program, or curl, is not installed.
    pub(super) fn of(way: Way) -> Option<Site> {
        let (program, _) = program(way.program()).zip(program("curl"))?;
        let folder = TempDir::new().unwrap();
        let made = rcgen::generate_simple_self_signed(vec![way.host().to_owned()]).unwrap();
        std::fs::write(folder.path().join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let url = format!("https://{}:{port}{}", way.host(), way.path());
        Some(Site { way, program, folder, port, url })
    }

    /// The address alone, as a browser names it.
    pub(super) fn origin(&self) -> &str {
        self.url.strip_suffix(self.way.path()).unwrap()
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The example as it is shipped, at this machine's names and ports. What is not found in it is an error: the example has
    /// changed, and this does not try it any more.
    fn configuration(&self, box_at: &str) -> String {
        let (name, changes) = self.way.example();
        let mut text = std::fs::read_to_string(root().join("packaging/proxies").join(name)).unwrap();
        let mut change = |from: &str, to: &str| {
            // Comments say the same again.
            let lines = text.lines().map(|line| match line.trim_start().starts_with('#') {
                true => line.to_owned(),
                false => line.replace(from, to),
            });
            let changed = lines.collect::<Vec<_>>().join("\n") + "\n";
            assert_ne!(changed, text, "{name} has no {from:?}");
            text = changed;
        };
        for (from, to) in changes {
            change(from, to);
        }
        change(if self.way.is_socket() { "BOX" } else { "127.0.0.1:8420" }, box_at);
        let (host, port) = (self.way.host(), self.port);
        let [cert, key] = ["cert.pem", "key.pem"].map(|name| self.file(name).display().to_string());
        if self.way.program() == "nginx" {
            change("listen 443 ssl http2;", &format!("listen 127.0.0.1:{port} ssl http2;"));
            change("listen [::]:443 ssl http2;", "");
            change(&format!("/etc/letsencrypt/live/{host}/fullchain.pem"), &cert);
            change(&format!("/etc/letsencrypt/live/{host}/privkey.pem"), &key);
            let folder = self.folder.path().display();
            let kept = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                .map(|part| format!("{part}_temp_path {folder}/{part};"))
                .join(" ");
            // Around it what Debian's nginx.conf has; `user` counts where an administrator starts it. How long it waits where the
            // example does not say is shortened, so that nobody has to wait for a minute to see that.
            let waits = "proxy_read_timeout 3s; proxy_send_timeout 3s; client_body_timeout 3s;";
            return format!(
                "user root; daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}\n\
                 http {{ access_log off; gzip on; {waits} {kept}\n{text}}}\n"
            );
        }
        let site = format!("https://{host}:{port} {{\n\tbind 127.0.0.1\n\ttls {cert} {key}");
        change(&format!("{host} {{"), &site);
        format!("{{\n\tadmin off\n\tauto_https off\n\tservers {{\n\t\tprotocols h1 h2\n\t}}\n}}\n{text}")
    }

    /// Starts the proxy before the box that is there; it answers when this returns.
    pub(super) async fn open(self, box_at: &str) -> Front {
        let file = self.file(if self.way.program() == "nginx" { "nginx.conf" } else { "Caddyfile" });
        std::fs::write(&file, self.configuration(box_at)).unwrap();
        let mut command = Command::new(&self.program);
        match self.way.program() {
            "nginx" => command.arg("-p").arg(self.folder.path()).arg("-e").arg(self.file("error.log")),
            _ => command.args(["run", "--adapter", "caddyfile"]),
        };
        command.arg(if self.way.program() == "nginx" { "-c" } else { "--config" }).arg(&file);
        command.current_dir(self.folder.path()).env("HOME", self.folder.path());
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_DATA_HOME");
        let log = std::fs::File::create(self.file("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let front = Front { proxy: command.spawn().unwrap(), site: self };
        eventually("the proxy answers", Duration::from_secs(60), || async {
            let answer = front.try_curl("/healthz", &[]);
            (answer.is_ok_and(|answer| answer.status == 200)).then_some(())
        })
        .await;
        front
    }
}

impl Front {
    /// A request of curl's to a path below the box's address; one that is whole is taken as it is.
    fn command(&self, path: &str, arguments: &[&str]) -> Command {
        let (host, port) = (self.site.way.host(), self.site.port);
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-m", "120", "--resolve", &format!("{host}:{port}:127.0.0.1"), "--cacert"]);
        curl.arg(self.site.file("cert.pem")).args(arguments);
        curl.arg(if path.starts_with("https://") {
            path.to_owned()
        } else {
            format!("{}{path}", self.site.url)
        });
        curl
    }

    pub(super) fn try_curl(&self, path: &str, arguments: &[&str]) -> Result<Answer, String> {
        let output = self.command(path, arguments).args(["-D", "/dev/stderr"]).output().unwrap();
        let headers = String::from_utf8_lossy(&output.stderr).into_owned();
        // Of several answers ("100 Continue" before the real one) the last counts.
        let head = headers.trim_end().rsplit("HTTP/").next().unwrap_or_default();
        let status = head.split_whitespace().nth(1).and_then(|code| code.parse().ok());
        match status {
            Some(status) if output.status.success() => Ok(Answer {
                status,
                headers: head.to_owned(),
                body: String::from_utf8_lossy(&output.stdout).into_owned(),
            }),
            _ => Err(headers),
        }
    }

    pub(super) fn curl(&self, path: &str, arguments: &[&str]) -> Answer {
        self.try_curl(path, arguments).unwrap_or_else(|why| panic!("{path}: {why}\n{}", self.log()))
    }

    /// Sends JSON, with a credential or none (empty); the status must be this one.
    pub(super) fn post(&self, path: &str, credential: &str, body: &Value, status: u16) -> Value {
        let (bearer, body) = (bearer(credential), body.to_string());
        let answer = self.curl(path, &["-H", &bearer, "-H", "content-type: application/json", "-d", &body]);
        assert_eq!(answer.status, status, "{path}: {}\n{}", answer.body, self.log());
        if answer.body.is_empty() { Value::Null } else { answer.json() }
    }

    pub(super) fn get(&self, path: &str, credential: &str) -> Value {
        let answer = self.curl(path, &["-H", &bearer(credential)]);
        assert_eq!(answer.status, 200, "{path}: {}\n{}", answer.body, self.log());
        answer.json()
    }

    /// An answer that goes on, as it comes.
    pub(super) fn stream(&self, path: &str, credential: &str) -> Streaming {
        let accept = "accept: text/event-stream";
        let mut command = self.command(path, &["-N", "-H", accept, "-H", &bearer(credential)]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let text = std::sync::Arc::<parking_lot::Mutex<String>>::default();
        let kept = text.clone();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(length @ 1..) = out.read(&mut part) {
                kept.lock().push_str(&String::from_utf8_lossy(&part[..length]));
            }
        });
        Streaming { child, text }
    }

    fn log(&self) -> String {
        let read = |name| std::fs::read_to_string(self.site.file(name)).unwrap_or_default();
        format!("{}{}", read("log"), read("error.log"))
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        // nginx ends its workers when it is asked; killed it would leave them.
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.proxy),
            rustix::process::Signal::TERM,
        );
        let _ = self.proxy.wait();
    }
}

/// A stream that is being read.
pub(super) struct Streaming {
    child: Child,
    text: std::sync::Arc<parking_lot::Mutex<String>>,
}

impl Streaming {
    /// What has come so far.
    pub(super) fn text(&self) -> String {
        self.text.lock().clone()
    }

    pub(super) fn goes_on(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
