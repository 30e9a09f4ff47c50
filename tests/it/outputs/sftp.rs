//! Rows of results as files on somebody else's server, over SFTP. The server is OpenSSH's.

use super::files::rows;
use super::postgres::{PATIENCE, console, reads, shop, visit};
use super::sshd::Sshd;
use super::{OUTPUTS, deliveries, from_pypi, shown};
use crate::audit::patch;
use crate::harness::process::Process;
use crate::harness::web::Web;
use crate::harness::{Appliance, Member, eventually, expect, get, member, post, refused, text};
use crate::own_storage::moto::{Road, Way};
use serde_json::{Value, json};
use server::client::Client;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/outputs/server.py");

fn allowed(web: &Web, places: &[SocketAddr]) -> String {
    let mut rules: Vec<String> = serde_json::from_str(&web.allow()).unwrap();
    rules.extend(places.iter().map(|place| format!("127.0.0.1/32:{}", place.port())));
    json!(rules).to_string()
}

fn place(sshd: &Sshd, port: u16) -> Value {
    json!({ "host": "127.0.0.1", "port": port, "user": sshd.user, "privateKey": sshd.text("login"),
        "hostKey": sshd.keyscan() })
}

fn terms(sftp: Value, more: Value) -> Value {
    let mut files =
        json!({ "format": "jsonl", "path": "shop", "maxRows": 7, "everyMinutes": 1, "sftp": sftp });
    files.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "kind": "files", "events": ["result.*"], "files": files })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_result_is_in_one_file_of_the_server_whatever_is_killed_or_cut() {
    let Some(mut sshd) = Sshd::start() else { return };
    let (web, road) = (shop().await, Road::to(sshd.address).await);
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let allow = allowed(&web, &[sshd.address, road.address]);
    let settings = [("NETWORK__ALLOW", allow.as_str()), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "64")];
    let mut process = Process::start(&data, &settings);
    let owner = member(&process.client(), &process.socket(), "server").await;
    let api = process.client().bearer(&owner.key);
    reads(&api, &["title", "price"]).await;
    let port = road.address.port();
    let lines = expect(post(&api, OUTPUTS, &terms(place(&sshd, port), json!({}))).await, 201);
    let delta = json!({ "delta": true, "format": "parquet", "path": "table", "maxRows": 10 });
    let delta = expect(post(&api, OUTPUTS, &terms(place(&sshd, port), delta)).await, 201);
    let (per_round, rounds) = (35, 4);
    for round in 0..rounds {
        let api = process.client().bearer(&owner.key);
        visit(&api, &web, round * per_round..(round + 1) * per_round).await;
        tokio::time::sleep(Duration::from_millis(300 + 130 * round as u64)).await;
        road.is(Way::Cut);
        tokio::time::sleep(Duration::from_millis(300)).await;
        sshd.kill();
        process.kill();
        road.is(Way::Open);
        sshd.again();
        process = Process::start(&data, &settings);
    }
    let api = process.client().bearer(&owner.key);
    let count = per_round * rounds;
    let expected = eventually("the console has them", PATIENCE, || async {
        let rows = console(&api, "products", "result_id, title, price").await;
        (rows.len() == count).then_some(rows)
    })
    .await;
    let folder = sshd.files();
    for made in [&lines, &delta] {
        eventually("nothing waits", PATIENCE, || async {
            let view = shown(&api, made).await;
            (view["pending"] == 0 && view["delivered"].as_u64() >= Some(14)).then_some(())
        })
        .await;
        for row in deliveries(&api, made).await.iter().take(3) {
            let path = format!("/api/v1/deliveries/{}/redeliver", text(row, "id"));
            expect(post(&api, &path, &json!({})).await, 202);
        }
    }
    eventually("what was sent again has come", PATIENCE, || async {
        (shown(&api, &lines).await["pending"] == 0 && shown(&api, &delta).await["pending"] == 0).then_some(())
    })
    .await;
    assert_eq!(rows(&folder.join("shop")), expected);
    let log = folder.join("table/products/_delta_log");
    assert_eq!(super::files::added(&log), count as u64);
    assert!(log.join("_last_checkpoint").exists());
    assert_eq!(process.terminate(), Some(0));
}

/// Makes an output and tries it; whether it is well, and what is told.
async fn tested(member: &Member, sftp: Value) -> (bool, String) {
    let mut new = terms(sftp, json!({}));
    new["isEnabled"] = json!(false);
    let made = post(&member.api, OUTPUTS, &new).await;
    assert!(!made.text().contains("PRIVATE KEY") && !made.text().contains("s3cret"), "{}", made.text());
    let path = format!("{OUTPUTS}/{}/test", text(&expect(made, 201), "id"));
    let sent = expect(post(&member.api, &path, &json!({})).await, 200)["sent"].clone();
    (sent["isDelivered"] == true, text(&sent, "told").to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_said_to_another_server_and_what_is_wrong_is_told() {
    let Some(sshd) = Sshd::start() else { return };
    let (web, road) = (shop().await, Road::to(sshd.address).await);
    let garbage = Web::open(|_| None).await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let endless = endless().await;
    let allow = allowed(&web, &[sshd.address, road.address, garbage.address, nobody, endless]);
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &allow)]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let port = sshd.address.port();
    let with = |field: &str, value: Value| {
        let mut place = place(&sshd, port);
        place[field] = value;
        place
    };
    // By the key, by another key of it, and by a fingerprint of the one that it shows first.
    for known in [sshd.text("host.pub"), sshd.text("host2.pub"), sshd.fingerprint("host.pub")] {
        let (is_well, told) = tested(&ada, with("hostKey", json!(known))).await;
        assert_eq!((is_well, told.as_str()), (true, "files can be written, replaced and read"), "{known}");
    }
    let (is_well, told) = tested(&ada, with("hostKey", json!(sshd.text("login.pub")))).await;
    assert!(!is_well && told.contains("another key than the one that is pinned"), "{told}");
    assert!(told.contains(&sshd.fingerprint("host.pub")), "{told}");
    let (is_well, told) = tested(&ada, with("privateKey", json!(sshd.text("other")))).await;
    assert!(!is_well && told.contains("does not let") && told.contains("publickey"), "{told}");
    let mut by_password = with("password", json!("s3cret"));
    by_password.as_object_mut().unwrap().remove("privateKey");
    let (is_well, told) = tested(&ada, by_password).await;
    assert!(!is_well && told.contains("does not let") && !told.contains("s3cret"), "{told}");
    let (is_well, told) = tested(&ada, with("folder", json!("/proc/nowhere"))).await;
    assert!(!is_well && told.contains("/proc/nowhere"), "{told}");
    let (is_well, told) = tested(&ada, with("port", json!(nobody.port()))).await;
    assert!(!is_well && told.contains("127.0.0.1"), "{told}");
    for odd in [garbage.address.port(), endless.port()] {
        let (is_well, told) = tested(&ada, with("port", json!(odd))).await;
        assert!(!is_well && (told.contains("SSH") || told.contains("the server has ended")), "{told}");
    }
    // A server that takes connections and says nothing is eve's; ada's files go all the while.
    road.is(Way::Hanging);
    for member in [&ada, &eve] {
        reads(&member.api, &["title", "price"]).await;
    }
    for n in 0..8 {
        let more = json!({ "path": format!("hanging{n}"), "maxRows": 5 });
        expect(post(&eve.api, OUTPUTS, &terms(with("port", json!(road.address.port())), more)).await, 201);
    }
    visit(&eve.api, &web, 0..10).await;
    let good = terms(place(&sshd, port), json!({ "path": "fine", "maxRows": 5 }));
    let good = expect(post(&ada.api, OUTPUTS, &good).await, 201);
    visit(&ada.api, &web, 0..10).await;
    eventually("ada's files are there", PATIENCE, || async {
        (rows(&sshd.files().join("fine")).len() == 10).then_some(())
    })
    .await;
    let one = format!("{OUTPUTS}/{}", text(&good, "id"));
    assert_eq!(get(&eve.api, &one).await.status, 404);
    let all = json!({ "sql": "SELECT * FROM outputs", "waitMs": 10_000 });
    assert!(!expect(post(&ada.api, "/api/v1/bi/queries", &all).await, 200).to_string().contains("PRIVATE"));
    what_cannot_be(&ada.api, &sshd, &one).await;
    at.stop().await;
}

async fn what_cannot_be(api: &Client, sshd: &Sshd, one: &str) {
    let long = "x".repeat(900_000);
    for (field, value) in [
        ("host", Value::Null),
        ("host", json!("a/b")),
        ("host", json!(long)),
        ("port", json!(0)),
        ("user", Value::Null),
        ("user", json!("a\nb")),
        ("user", json!(long)),
        ("hostKey", Value::Null),
        ("hostKey", json!("SHA256:short")),
        ("hostKey", json!(long)),
        ("privateKey", json!("secret")),
        ("privateKey", json!(long)),
        ("password", json!("both")),
        ("folder", json!("../up")),
        ("folder", json!(long)),
    ] {
        let mut sftp = place(sshd, sshd.address.port());
        sftp[field] = value;
        let reply = post(api, OUTPUTS, &terms(sftp, json!({}))).await;
        assert!(reply.text().len() < 2_000 && !reply.text().contains("PRIVATE KEY-----\nb3"), "{field}");
        let named = match field {
            "port" => "files.sftp.host",
            "password" => "files.sftp.privateKey",
            field => &format!("files.sftp.{field}"),
        };
        refused(&reply, 400, "Validation failed", named);
    }
    for closed in ["127.0.0.2", "169.254.169.254", "::1"] {
        let mut sftp = place(sshd, 22);
        sftp["host"] = json!(closed);
        refused(&post(api, OUTPUTS, &terms(sftp, json!({}))).await, 400, "Invalid URL", "files.sftp.host");
    }
    // Whoever changes where it goes, or by what the server is known, must know the key.
    for elsewhere in
        [json!({ "port": 1 }), json!({ "user": "x" }), json!({ "hostKey": sshd.text("host2.pub") })]
    {
        let port = elsewhere["port"].as_u64();
        let body = json!({ "files": { "sftp": elsewhere } });
        let reply = patch(api, one, &body).await;
        match port {
            Some(_) => assert_eq!(reply.status, 400, "{}", reply.text()),
            None => refused(&reply, 400, "Validation failed", "files.sftp.password"),
        }
    }
    expect(patch(api, one, &json!({ "files": { "sftp": { "folder": "else" } } })).await, 200);
}

/// A server that goes on talking, and never says what it should.
async fn endless() -> SocketAddr {
    use tokio::io::AsyncWriteExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move { while client.write_all(&[b'x'; 4_096]).await.is_ok() {} });
        }
    });
    address
}

/// Another server than OpenSSH's, which lets in by a password: told at once, or as the answer to a question.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_lets_in_however_it_is_asked_for() {
    let Some(tools) = from_pypi(&["asyncssh"]) else { return };
    let (dir, web) = (TempDir::new().unwrap(), shop().await);
    let key = dir.path().join("key");
    let made = Command::new("ssh-keygen").args(["-q", "-N", "", "-t", "ed25519", "-f"]).arg(&key).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: there is no ssh-keygen on this machine");
        return;
    }
    let mut servers = Vec::new();
    for way in ["password", "question"] {
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let folder = dir.path().join(way);
        std::fs::create_dir(&folder).unwrap();
        let mut python = Command::new("python3");
        python.arg(SERVER).arg(address.port().to_string()).arg(&key).arg(&folder).args(["s3cret", way]);
        python.env("PYTHONPATH", tools.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Ends(python.spawn().unwrap());
        eventually("the server answers", PATIENCE, || async {
            tokio::net::TcpStream::connect(address).await.ok().map(drop)
        })
        .await;
        servers.push((server, address, folder));
    }
    let places: Vec<_> = servers.iter().map(|(_, address, _)| *address).collect();
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &allowed(&web, &places))]).await;
    let ada = at.member("ada").await;
    reads(&ada.api, &["title", "price"]).await;
    let host_key = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    for (_, address, _) in &servers {
        let mut place = json!({ "host": "127.0.0.1", "port": address.port(), "user": "writer", "password": "wr0ng",
            "hostKey": host_key, "folder": "/in/here" });
        let (is_well, told) = tested(&ada, place.clone()).await;
        assert!(!is_well && told.contains("does not let writer in") && !told.contains("wr0ng"), "{told}");
        place["password"] = json!("s3cret");
        assert_eq!(
            tested(&ada, place.clone()).await,
            (true, "files can be written, replaced and read".to_owned())
        );
        expect(post(&ada.api, OUTPUTS, &terms(place, json!({ "maxRows": 5 }))).await, 201);
    }
    visit(&ada.api, &web, 0..10).await;
    for (_, _, folder) in &servers {
        eventually("the files are there", PATIENCE, || async {
            (rows(&folder.join("in/here/shop")).len() == 10).then_some(())
        })
        .await;
    }
    at.stop().await;
}

/// A process that ends with this.
struct Ends(std::process::Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
