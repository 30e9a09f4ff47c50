//! Proxies on loopback: HTTP (CONNECT and whole URLs) and SOCKS5 on one port, with the tempers that real ones have.
//!
//! Written from RFC 1928, 1929, 9110 and 9112 and not from our own side of them. Every name leads to 127.0.0.1 for them,
//! as if they resolved it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;

/// How a proxy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Temper {
    Good,
    /// Its port is taken and nobody listens there.
    Dead,
    /// Serves who has this user name and password.
    Locked(&'static str, &'static str),
    /// Takes connections and says nothing.
    Hanging,
    /// Answers every HTTP request with this status, every SOCKS5 request with this reply.
    Refusing(u16, u8),
}

/// A running proxy; it ends when this is dropped.
pub struct ProxyServer {
    pub address: SocketAddr,
    told: Arc<Mutex<Vec<String>>>,
    accepting: JoinHandle<()>,
}

impl ProxyServer {
    pub async fn open(temper: Temper) -> ProxyServer {
        if temper == Temper::Dead {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a loopback port");
            let address = socket.local_addr().expect("its address");
            let accepting = tokio::spawn(async move {
                let _held = socket;
                std::future::pending::<()>().await;
            });
            return ProxyServer { address, told: Arc::default(), accepting };
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = listener.local_addr().expect("its address");
        let told = Arc::<Mutex<Vec<String>>>::default();
        let log = told.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, temper.clone(), log.clone()));
            }
        });
        ProxyServer { address, told, accepting }
    }

    /// `GET http://…` and `CONNECT host:port` of HTTP, `SOCKS host:port` of SOCKS5, in the order of arrival.
    pub fn told(&self) -> Vec<String> {
        self.told.lock().expect("no test panics with it").clone()
    }

    /// What it was told to fetch or to connect to, without visits of robots.txt.
    pub fn pages(&self) -> Vec<String> {
        self.told().into_iter().filter(|line| !line.ends_with("/robots.txt")).collect()
    }
}

impl Drop for ProxyServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(mut stream: TcpStream, temper: Temper, log: Arc<Mutex<Vec<String>>>) {
    let mut first = [0];
    if temper == Temper::Hanging {
        let mut heard = Vec::new();
        while stream.read_buf(&mut heard).await.is_ok_and(|n| n > 0) {}
        return;
    }
    // A connection that breaks off is the other side's to complain about.
    let _ = match stream.peek(&mut first).await {
        Ok(1) if first == [5] => socks(stream, temper, &log).await,
        Ok(1) => http(stream, temper, &log).await,
        _ => Ok(()),
    };
}

fn note(log: &Mutex<Vec<String>>, line: String) {
    log.lock().expect("no test panics with it").push(line);
}

async fn http(mut stream: TcpStream, temper: Temper, log: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut words = head.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    note(log, format!("{method} {target}"));
    let authorization = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("proxy-authorization").then_some(value)
    });
    let refusal = match temper {
        Temper::Refusing(status, _) => Some(status),
        Temper::Locked(user, password) => {
            use base64::Engine;
            let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
            (authorization != Some(format!("Basic {pair}").as_str())).then_some(407)
        }
        _ => None,
    };
    if let Some(status) = refusal {
        let answer = format!("HTTP/1.1 {status} No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
        return stream.write_all(answer.as_bytes()).await;
    }
    if method == "CONNECT" {
        let port = port_of(target);
        let mut onward = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
        return copy_bidirectional(&mut stream, &mut onward).await.map(drop);
    }
    let url = url::Url::parse(target).unwrap_or_else(|e| panic!("a proxy was told {target:?}: {e}"));
    let mut onward = TcpStream::connect(("127.0.0.1", url.port_or_known_default().unwrap_or(80))).await?;
    let path = &url[url::Position::BeforePath..];
    let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    for line in head.lines().skip(1).filter(|line| !line.is_empty()) {
        if !line.to_ascii_lowercase().starts_with("proxy-") {
            request.push_str(line);
            request.push_str("\r\n");
        }
    }
    request.push_str("\r\n");
    onward.write_all(request.as_bytes()).await?;
    tokio::io::copy(&mut onward, &mut stream).await.map(drop)
}

fn port_of(authority: &str) -> u16 {
    let port = authority.rsplit(':').next().and_then(|port| port.parse().ok());
    port.unwrap_or_else(|| panic!("a proxy was told to connect to {authority:?}"))
}

async fn socks(mut stream: TcpStream, temper: Temper, log: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let methods = usize::from(read::<2>(&mut stream).await?[1]);
    let mut offered = vec![0; methods];
    stream.read_exact(&mut offered).await?;
    if let Temper::Locked(user, password) = temper {
        if !offered.contains(&2) {
            return stream.write_all(&[5, 0xff]).await;
        }
        stream.write_all(&[5, 2]).await?;
        let [_, length] = read::<2>(&mut stream).await?;
        let mut given_user = vec![0; length.into()];
        stream.read_exact(&mut given_user).await?;
        let [length] = read::<1>(&mut stream).await?;
        let mut given_password = vec![0; length.into()];
        stream.read_exact(&mut given_password).await?;
        let right = given_user == user.as_bytes() && given_password == password.as_bytes();
        stream.write_all(&[1, u8::from(!right)]).await?;
        if !right {
            return Ok(());
        }
    } else {
        assert!(offered.contains(&0), "a proxy that wants no login was offered {offered:?}");
        stream.write_all(&[5, 0]).await?;
    }
    let [_, command, _, kind] = read::<4>(&mut stream).await?;
    assert_eq!(command, 1, "only connections are asked for");
    let host = match kind {
        1 => std::net::Ipv4Addr::from(read::<4>(&mut stream).await?).to_string(),
        4 => std::net::Ipv6Addr::from(read::<16>(&mut stream).await?).to_string(),
        3 => {
            let [length] = read::<1>(&mut stream).await?;
            let mut name = vec![0; length.into()];
            stream.read_exact(&mut name).await?;
            String::from_utf8(name).expect("a name in ASCII")
        }
        other => panic!("a proxy was told an address of kind {other}"),
    };
    let port = u16::from_be_bytes(read::<2>(&mut stream).await?);
    note(log, format!("SOCKS {host}:{port}"));
    let reply = if let Temper::Refusing(_, reply) = temper { reply } else { 0 };
    stream.write_all(&[5, reply, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    if reply != 0 {
        return Ok(());
    }
    let mut onward = TcpStream::connect(("127.0.0.1", port)).await?;
    copy_bidirectional(&mut stream, &mut onward).await.map(drop)
}

async fn read<const N: usize>(stream: &mut TcpStream) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}
