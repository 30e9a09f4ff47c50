//! A server that speaks S3 (`moto`, from PyPI), and a way to it that can be cut.

use crate::harness::eventually;
use server::client::Client;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A server of this test alone; it ends with it.
pub struct Moto {
    child: Child,
    pub address: SocketAddr,
    /// Its own packages, where the machine has none.
    _tools: TempDir,
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Moto {
    /// None, and a message, where it cannot be had.
    pub async fn start() -> Option<Moto> {
        let tools = TempDir::new().unwrap();
        let quiet = |command: &mut Command| {
            let done =
                command.env("PYTHONPATH", tools.path()).stdout(Stdio::null()).stderr(Stdio::null()).status();
            done.is_ok_and(|status| status.success())
        };
        let is_there = || quiet(Command::new("python3").args(["-c", "import moto.server, flask"]));
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]);
        pip.arg(tools.path()).arg("moto[server]==5.2.1");
        let is_usable = is_there() || (quiet(&mut pip) && is_there());
        if !is_usable {
            println!("skipped: moto cannot be had from PyPI");
            return None;
        }
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let port = free.port().to_string();
        let child = Command::new("python3")
            .args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port])
            .env("PYTHONPATH", tools.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let moto = Moto { child, address: free, _tools: tools };
        eventually("moto answers", Duration::from_secs(60), || async {
            Client::new(moto.url()).get("/moto-api/").await.ok().map(drop)
        })
        .await;
        Some(moto)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub async fn make_bucket(&self, name: &str) {
        let made = Client::new(self.url()).send(http::Method::PUT, &format!("/{name}"), None).await.unwrap();
        assert_eq!(made.status, 200, "{}", made.text());
    }

    /// From now on only signed requests of a user who may do everything are let in; the user's access key and secret.
    pub async fn closed(&self) -> (String, String) {
        let scope = "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=any";
        let client = Client::new(self.url()).header("authorization", scope);
        let ask = async |what: &str| {
            let (kind, form) =
                ("application/x-www-form-urlencoded", format!("Version=2010-05-08&UserName=box&{what}"));
            let reply = client.send_bytes(http::Method::POST, "/", Some(kind), form).await.unwrap();
            assert_eq!(reply.status, 200, "{}", reply.text());
            reply.text()
        };
        ask("Action=CreateUser").await;
        let all = "%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%7B%22Effect%22%3A%22Allow%22%2C%22Action%22%3A%22*%22%2C%22Resource%22%3A%22*%22%7D%5D%7D";
        ask(&format!("Action=PutUserPolicy&PolicyName=all&PolicyDocument={all}")).await;
        let made = ask("Action=CreateAccessKey").await;
        let between = |name: &str| {
            let rest = made.split_once(&format!("<{name}>")).unwrap().1;
            rest.split_once(&format!("</{name}>")).unwrap().0.to_owned()
        };
        let closed = client
            .send_bytes(http::Method::POST, "/moto-api/reset-auth", Some("text/plain"), "0")
            .await
            .unwrap();
        assert_eq!(closed.status, 200, "{}", closed.text());
        (between("AccessKeyId"), between("SecretAccessKey"))
    }

    /// An object's text. It shows objects to whoever is somebody; who that is it does not ask.
    pub async fn object(&self, bucket: &str, key: &str) -> String {
        let scope = "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=any";
        let client = Client::new(self.url()).header("authorization", scope);
        let object = client.get(&format!("/{bucket}/{key}")).await.unwrap();
        assert_eq!(object.status, 200, "{key}: {}", object.text());
        object.text()
    }

    /// The keys in a bucket, 1,000 at most.
    pub async fn keys(&self, bucket: &str) -> Vec<String> {
        let listed = Client::new(self.url()).get(&format!("/{bucket}?list-type=2")).await.unwrap().text();
        let keys = listed.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
        keys.map(|(key, _)| key.to_owned()).collect()
    }
}

/// What becomes of connections.
#[derive(Clone, Copy)]
#[repr(u8)]
pub enum Way {
    Open,
    /// They are taken, and nothing comes back.
    Hanging,
    /// They end after some bytes in either direction.
    Cut,
}

/// A way to a server that can be cut.
pub struct Road {
    pub address: SocketAddr,
    way: Arc<AtomicU8>,
}

/// After how many bytes a cut connection ends: within what is sent, or within its answer.
const CUT_AFTER: u64 = 300;

impl Road {
    pub async fn to(server: SocketAddr) -> Road {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, way) = (listener.local_addr().unwrap(), Arc::new(AtomicU8::new(Way::Open as u8)));
        let asked = Arc::clone(&way);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let asked = Arc::clone(&asked);
                tokio::spawn(async move {
                    let Ok(upstream) = TcpStream::connect(server).await else { return };
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = upstream.into_split();
                    let up = tokio::spawn(carry(from_client, to_server, Arc::clone(&asked)));
                    let down = tokio::spawn(carry(from_server, to_client, asked));
                    let (first, second) = (up.abort_handle(), down.abort_handle());
                    tokio::select! { _ = up => second.abort(), _ = down => first.abort() }
                });
            }
        });
        Road { address, way }
    }

    pub fn is(&self, way: Way) {
        self.way.store(way as u8, Ordering::SeqCst);
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

async fn carry(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    way: Arc<AtomicU8>,
) {
    let (mut buffer, mut carried) = (vec![0; 16 << 10], 0);
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let now = way.load(Ordering::SeqCst);
        if now == Way::Hanging as u8 {
            std::future::pending::<()>().await;
        }
        carried += count as u64;
        if now == Way::Cut as u8 && carried > CUT_AFTER {
            return;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
