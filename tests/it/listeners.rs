//! Where the box listens: at several addresses, at Unix sockets, and at sockets that a service manager holds open for it.

use crate::harness::{binary, get, member, post, text};
use crate::shipped::{Place, ready};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use server::client::Client;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// One request on a connection of its own; the whole answer.
fn ask(mut stream: impl Read + Write, request: &str) -> std::io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: box\r\nconnection: close\r\n\r\n";

/// A login that fails, passed on for somebody at this address.
fn login(email: &str, forwarded: &str) -> String {
    let body = json!({ "email": email, "password": "not the right one" }).to_string();
    format!(
        "POST /api/v1/auth/login HTTP/1.1\r\nhost: box\r\nconnection: close\r\nx-forwarded-for: {forwarded}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Where the box says that it listens.
fn places(place: &Place) -> Vec<String> {
    let status = place.done(&["admin", "status"]);
    status["listening"].as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// The addresses that rows of the box's own audit log have, newest first.
fn seen(place: &Place) -> Vec<Value> {
    let rows = place.done(&["admin", "audit"]);
    let rows = rows.as_array().unwrap_or_else(|| panic!("{rows}"));
    rows.iter().map(|row| row["ip"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_address_answers_and_none_is_opened_to_jobs() {
    let folder = TempDir::new().unwrap();
    let place = Place::at(folder.path())
        .with("GLEANER_SERVER__LISTEN", "127.0.0.1:0, 127.0.0.2:0, unix:http.sock")
        .with("GLEANER_NETWORK__ALLOW", "[\"127.0.0.0/8\"]");
    let served = place.serve();
    ready(&served).await;
    let found = places(&place);
    let socket = folder.path().join("http.sock");
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!((&found[0], &found[2]), (&served.url, &format!("unix:{}", socket.display())));
    assert!(found[1].starts_with("http://127.0.0.2:"), "{found:?}");
    for url in &found[..2] {
        assert_eq!(get(&Client::new(url), "/healthz").await.text(), "ok\n", "{url}");
    }
    let answer = ask(UnixStream::connect(&socket).unwrap(), HEALTH).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("ok\n"), "{answer}");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o660);
    // Whatever the operator has opened, the box itself is closed to whom it works for: at each of its addresses.
    let admin = folder.path().join("data/var/admin.sock");
    let member = member(&served.client(), &admin, "ada").await;
    for url in &found[..2] {
        let refused = post(&member.api, "/api/v1/jobs", &json!({ "url": url })).await;
        assert_eq!(refused.status, 400, "{url}: {}", refused.text());
    }
    assert_eq!(served.terminate(), Some(0));
    assert!(!socket.exists(), "its file goes with the box");
}

/// Who may open the socket's file is believed as a trusted proxy is; nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_at_the_unix_socket_says_who_asks() {
    let folder = TempDir::new().unwrap();
    let place = Place::at(folder.path()).with("GLEANER_SERVER__LISTEN", "127.0.0.1:0, unix:http.sock");
    let served = place.serve();
    ready(&served).await;
    let socket = folder.path().join("http.sock");
    let address = served.url.strip_prefix("http://").unwrap().to_owned();
    let refused =
        ask(UnixStream::connect(&socket).unwrap(), &login("a@example.com", "6.6.6.6, 198.51.100.7"));
    assert!(refused.unwrap().starts_with("HTTP/1.1 401 "));
    assert_eq!(seen(&place)[0], "198.51.100.7");
    ask(TcpStream::connect(&address).unwrap(), &login("b@example.com", "198.51.100.8")).unwrap();
    assert_eq!(seen(&place)[0], "127.0.0.1");
    // Without a word of somebody else it is the machine's own.
    ask(UnixStream::connect(&socket).unwrap(), &login("c@example.com", "nonsense")).unwrap();
    assert_eq!(seen(&place)[0], "127.0.0.1");
    assert_eq!(served.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_a_killed_box_has_left_is_taken_and_one_in_use_is_not() {
    let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let socket = folder.path().join("http.sock");
    let listen = format!("unix:{}, 127.0.0.1:0", socket.display());
    let place = Place::at(folder.path()).with("GLEANER_SERVER__LISTEN", &listen);
    let served = place.serve();
    let (code, _, errors) = Place::at(other.path()).with("GLEANER_SERVER__LISTEN", &listen).run(&["serve"]);
    assert_eq!(code, Some(1));
    for part in [&*socket.display().to_string(), "Another program has it", "server.listen"] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    assert!(!other.path().join("data").exists(), "nothing was made");
    served.signal(Signal::KILL);
    drop(served);
    assert!(socket.exists());
    let served = place.serve();
    assert!(ask(UnixStream::connect(&socket).unwrap(), HEALTH).unwrap().ends_with("ok\n"));
    assert_eq!(served.terminate(), Some(0));
}

/// A box of a service manager, which has opened one socket.
struct Activated(Child);

impl Activated {
    fn start(folder: &Path, socket: OwnedFd, settings: &[(&str, &str)]) -> Activated {
        // As systemd does it: the socket is descriptor 3, and the process that is meant is named.
        let script = "exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$0\" serve";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(binary()).current_dir(folder);
        command.stdin(Stdio::from(socket)).stdout(Stdio::piped());
        command.env("GLEANER_LOG__LEVEL", "error").envs(settings.iter().copied());
        Activated(command.spawn().unwrap())
    }

    /// Reads where it listens.
    fn told(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn terminate(&mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for Activated {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn nobody_is_turned_away_while_a_box_with_a_service_managers_socket_is_restarted() {
    let folder = TempDir::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let held = || OwnedFd::from(listener.try_clone().unwrap());
    // The address of the configuration is not taken: nobody could have it.
    let settings = [("GLEANER_SERVER__LISTEN", "192.0.2.1:1")];
    let mut first = Activated::start(folder.path(), held(), &settings);
    assert_eq!(first.told(), format!("Gleaner listens at http://{address}"));
    let enough = Arc::new(AtomicBool::new(false));
    let asking: Vec<_> = (0..3)
        .map(|_| {
            let enough = enough.clone();
            std::thread::spawn(move || asked_until(address, &enough))
        })
        .collect();
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(first.terminate(), Some(0));
        std::thread::sleep(Duration::from_millis(300));
        first = Activated::start(folder.path(), held(), &settings);
        first.told();
    }
    enough.store(true, Ordering::Relaxed);
    for thread in asking {
        let answers = thread.join().unwrap();
        assert!(answers > 10, "only {answers} answers");
    }
    assert_eq!(first.terminate(), Some(0));
}

/// Asks again and again, each time on a new connection, and holds that each is answered; gives how many there were.
fn asked_until(address: SocketAddr, enough: &AtomicBool) -> u32 {
    let mut answers = 0;
    // However slow the machine is, there are some.
    while !enough.load(Ordering::Relaxed) || answers <= 10 {
        let stream = TcpStream::connect(address).expect("the socket is open");
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let answer = ask(stream, HEALTH).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 "), "after {answers} answers: {answer:?}");
        answers += 1;
    }
    answers
}

#[test]
fn a_service_managers_unix_socket_is_taken_and_left_where_it_is() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("held.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let held = || OwnedFd::from(listener.try_clone().unwrap());
    let mut refused = Activated::start(folder.path(), held(), &[]);
    assert_eq!(refused.0.wait().unwrap().code(), Some(1), "nothing says how people reach it");
    let settings = [("GLEANER_SERVER__PUBLIC_URL", "https://box.example/gleaner")];
    let mut running = Activated::start(folder.path(), held(), &settings);
    assert_eq!(running.told(), format!("Gleaner listens at unix:{}", path.display()));
    assert!(ask(UnixStream::connect(&path).unwrap(), HEALTH).unwrap().ends_with("ok\n"));
    assert_eq!(running.terminate(), Some(0));
    assert!(path.exists(), "who has made it removes it");
}

/// What is no listening socket is refused by name.
#[test]
fn a_descriptor_that_is_no_listening_stream_is_refused() {
    let folder = TempDir::new().unwrap();
    let file = fs::File::open("/dev/null").unwrap();
    let mut refused = Activated::start(folder.path(), OwnedFd::from(file), &[]);
    assert_eq!(refused.0.wait().unwrap().code(), Some(1));
    assert!(!folder.path().join("data").exists());
}

/// Variables of another process, as a shell inherits them that was itself started by a socket, say nothing to the box.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_of_another_process_are_not_taken() {
    let folder = TempDir::new().unwrap();
    for pid in ["", "1"] {
        let mut place = Place::at(folder.path()).with("LISTEN_FDS", "1");
        if !pid.is_empty() {
            place = place.with("LISTEN_PID", pid);
        }
        let served = place.serve();
        assert_eq!(get(&served.client(), "/healthz").await.text(), "ok\n");
        assert_eq!(served.terminate(), Some(0));
    }
}

/// A box that is at a Unix socket alone has an address that people reach, and its links have it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_at_a_unix_socket_alone_works() {
    let folder = TempDir::new().unwrap();
    let place = Place::at(folder.path()).with("GLEANER_SERVER__LISTEN", "unix:http.sock");
    let (code, _, errors) = place.run(&["serve"]);
    assert!(code == Some(1) && errors.contains("server.public_url: must be set"), "{errors}");
    let place = place.with("GLEANER_SERVER__PUBLIC_URL", "https://box.example/gleaner");
    let served = place.serve();
    assert_eq!(served.url, format!("unix:{}", folder.path().join("http.sock").display()));
    let made = place.done(&["admin", "user", "create", "ada@example.com"]);
    assert!(text(&made, "link").starts_with("https://box.example/gleaner/reset-password#"), "{made}");
    let reply = ask(UnixStream::connect(folder.path().join("http.sock")).unwrap(), HEALTH).unwrap();
    assert!(reply.ends_with("ok\n"), "{reply}");
    assert_eq!(served.terminate(), Some(0));
}

/// A list in the file, as `gleaner config` shows and checks it.
#[test]
fn a_list_of_addresses_is_checked_and_shown() {
    let folder = TempDir::new().unwrap();
    let write = |text: &str| fs::write(folder.path().join("appliance.toml"), text).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(binary());
        command.args(arguments).current_dir(folder.path()).env_clear();
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    write("[server]\nlisten = [\"127.0.0.1:8420\", \"unix:/run/gleaner/http.sock\"]\n");
    let (code, shown) = run(&["config", "show"]);
    let line = "server.listen = [\"127.0.0.1:8420\", \"unix:/run/gleaner/http.sock\"]  # file\n";
    assert!(code == Some(0) && shown.contains(line), "{shown}");
    write("[server]\nlisten = [\"127.0.0.1:8420\", \"localhost:1\"]\nsocket_mode = \"rw\"\n");
    let (code, told) = run(&["config", "check"]);
    assert_eq!(code, Some(1));
    for part in
        ["server.listen[1]: \"localhost:1\" is not an address", "server.socket_mode: \"rw\" is no mode"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
}
