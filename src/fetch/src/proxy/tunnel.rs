//! Talking a proxy into a connection: CONNECT over HTTP (RFC 9110, section 9.3.6) and SOCKS5 (RFC 1928, 1929).
//!
//! What goes wrong here is told apart by whose trouble it is, because different things follow from it: see [`ProxyFailure`].
//! Nothing that a proxy says is believed to be short: every answer has a limit.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::RETRY_AFTER;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use url::Host;

use super::ProxyFailure;
use super::address::{Login, Proxy};
use crate::retry_after::retry_after;
use base::web::WebUrl;

/// The head of a proxy's answer to CONNECT, in bytes.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// What the proxy is asked to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A checked address: the proxy has nothing to resolve.
    Address(SocketAddr),
    /// The host by its name. An IPv6 address has its brackets.
    Name(String, u16),
}

impl Destination {
    /// The URL's host by its name.
    pub fn named(url: &WebUrl) -> Self {
        match url.host_kind() {
            Host::Domain(name) => Self::Name(name.to_owned(), url.port()),
            Host::Ipv4(ip) => Self::Address(SocketAddr::new(ip.into(), url.port())),
            Host::Ipv6(ip) => Self::Address(SocketAddr::new(ip.into(), url.port())),
        }
    }

    fn authority(&self) -> String {
        match self {
            Self::Address(addr) => addr.to_string(),
            Self::Name(name, port) => format!("{name}:{port}"),
        }
    }
}

/// A proxy that did not bring a connection about.
#[derive(Debug)]
pub struct Refusal {
    pub trouble: ProxyFailure,
    /// Completes a sentence that begins with the proxy.
    pub reason: String,
    /// How long the proxy asked to be left alone.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    pub fn new(trouble: ProxyFailure, reason: impl Into<String>) -> Self {
        Self { trouble, reason: reason.into(), retry_after: None }
    }
}

/// A connection that ended early.
impl From<std::io::Error> for Refusal {
    fn from(_: std::io::Error) -> Self {
        Self::new(ProxyFailure::Down, "closed the connection")
    }
}

/// Makes `stream`, which leads to `proxy`, lead to `to`.
pub async fn open<S>(stream: &mut S, proxy: &Proxy, to: &Destination) -> Result<(), Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match proxy.is_http() {
        true => connect(stream, proxy.login.as_ref(), to).await,
        false => socks5(stream, proxy.login.as_ref(), to).await,
    }
}

async fn connect<S>(stream: &mut S, login: Option<&Login>, to: &Destination) -> Result<(), Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let authority = to.authority();
    let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
    if let Some(basic) = login.and_then(Login::basic) {
        // A value that was made of Base64 is text.
        let _ = write!(request, "Proxy-Authorization: {}\r\n", basic.to_str().unwrap_or_default());
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::with_capacity(512);
    let end = loop {
        if let Some(at) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break at + 4;
        }
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(Refusal::new(ProxyFailure::Down, "answered CONNECT with too much"));
        }
        if stream.read_buf(&mut answer).await? == 0 {
            let reason = if answer.is_empty() { "closed the connection" } else { "broke off its answer" };
            return Err(Refusal::new(ProxyFailure::Down, reason));
        }
    };
    let head = String::from_utf8_lossy(&answer[..end]);
    match status_of(&head) {
        // The client speaks first, so what came behind the answer belongs to nobody.
        Some(200..=299) if answer.len() == end => Ok(()),
        Some(200..=299) => Err(Refusal::new(ProxyFailure::Down, "answered CONNECT with a body")),
        Some(status) => Err(by_status(status, &head)),
        None => Err(Refusal::new(ProxyFailure::Down, "answered CONNECT with something that is not HTTP")),
    }
}

/// The status of an HTTP/1 answer.
fn status_of(head: &str) -> Option<u16> {
    let line = head.strip_prefix("HTTP/1.")?.get(1..)?.strip_prefix(' ')?;
    let status = line.split([' ', '\r']).next().filter(|status| status.len() == 3)?;
    status.parse().ok().filter(|status| (100..=599).contains(status))
}

/// What a refused CONNECT means. Proxies agree on 407; the rest is the plain meaning of the statuses.
fn by_status(status: u16, head: &str) -> Refusal {
    let (trouble, reason) = match status {
        407 => (ProxyFailure::BadLogin, "does not accept its user name and password (407)".to_owned()),
        402 => (ProxyFailure::NoCredits, "wants to be paid (402)".to_owned()),
        429 => (ProxyFailure::Throttled, "was asked too often (429)".to_owned()),
        408 | 504 => (ProxyFailure::Silent, format!("got no answer from the target ({status})")),
        502 | 503 => (ProxyFailure::Unreachable, format!("could not reach the target ({status})")),
        500..=599 => (ProxyFailure::Unreachable, format!("failed ({status})")),
        _ => (ProxyFailure::Unsupported, format!("refuses to connect to the target ({status})")),
    };
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let value = value.trim().parse().ok()?;
        name.eq_ignore_ascii_case(RETRY_AFTER.as_str()).then_some((RETRY_AFTER, value))
    };
    let headers: HeaderMap = head.lines().filter_map(field).take(1).collect();
    Refusal { trouble, reason, retry_after: retry_after(&headers, SystemTime::now()) }
}

const VERSION: u8 = 5;
const NO_LOGIN: u8 = 0;
const BY_PASSWORD: u8 = 2;
const LOGIN_VERSION: u8 = 1;
const CONNECT: u8 = 1;
const RESERVED: u8 = 0;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

async fn socks5<S>(stream: &mut S, login: Option<&Login>, to: &Destination) -> Result<(), Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let greeting: &[u8] = match login {
        None => &[VERSION, 1, NO_LOGIN],
        Some(_) => &[VERSION, 2, NO_LOGIN, BY_PASSWORD],
    };
    stream.write_all(greeting).await?;
    let [version, method] = read::<2, _>(stream).await?;
    if version != VERSION {
        return Err(Refusal::new(ProxyFailure::Down, "does not speak SOCKS5"));
    }
    match (method, login) {
        (NO_LOGIN, _) => {}
        (BY_PASSWORD, Some(login)) => log_in(stream, login).await?,
        (_, Some(_)) => {
            return Err(Refusal::new(ProxyFailure::BadLogin, "takes no user name and password"));
        }
        (_, None) => return Err(Refusal::new(ProxyFailure::BadLogin, "wants a user name and password")),
    }
    let mut request = vec![VERSION, CONNECT, RESERVED];
    let port = match to {
        Destination::Address(addr) => {
            match addr.ip() {
                IpAddr::V4(ip) => {
                    request.push(IPV4);
                    request.extend(ip.octets());
                }
                IpAddr::V6(ip) => {
                    request.push(IPV6);
                    request.extend(ip.octets());
                }
            }
            addr.port()
        }
        Destination::Name(name, port) => {
            let length = u8::try_from(name.len()).map_err(|_| {
                Refusal::new(ProxyFailure::Unsupported, "takes no name longer than 255 bytes")
            })?;
            request.extend([NAME, length]);
            request.extend(name.as_bytes());
            *port
        }
    };
    request.extend(port.to_be_bytes());
    stream.write_all(&request).await?;
    let [version, reply, _, kind] = read::<4, _>(stream).await?;
    if version != VERSION {
        return Err(Refusal::new(ProxyFailure::Down, "does not speak SOCKS5"));
    }
    by_reply(reply)?;
    // The address that the proxy connects from; nobody needs it, and it stands before the target's first byte.
    let length = match kind {
        IPV4 => 4,
        IPV6 => 16,
        NAME => read::<1, _>(stream).await?[0].into(),
        _ => return Err(Refusal::new(ProxyFailure::Down, "does not speak SOCKS5")),
    };
    let mut rest = vec![0; length + 2];
    stream.read_exact(&mut rest).await?;
    Ok(())
}

async fn log_in<S>(stream: &mut S, login: &Login) -> Result<(), Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut request = vec![LOGIN_VERSION];
    for text in [&login.user, &login.password] {
        let length = u8::try_from(text.len())
            .map_err(|_| Refusal::new(ProxyFailure::BadLogin, "takes no longer user name and password"))?;
        request.push(length);
        request.extend(text.as_bytes());
    }
    stream.write_all(&request).await?;
    match read::<2, _>(stream).await? {
        [_, 0] => Ok(()),
        _ => Err(Refusal::new(ProxyFailure::BadLogin, "does not accept its user name and password")),
    }
}

/// What a reply code means (RFC 1928, section 6).
fn by_reply(reply: u8) -> Result<(), Refusal> {
    let (trouble, reason) = match reply {
        0 => return Ok(()),
        2 => (ProxyFailure::Unsupported, "refuses to connect to the target"),
        3 | 4 => (ProxyFailure::Unreachable, "cannot reach the target"),
        5 => (ProxyFailure::Unreachable, "was refused by the target"),
        6 => (ProxyFailure::Silent, "got no answer from the target"),
        7 => (ProxyFailure::Unsupported, "does not make connections"),
        8 => (ProxyFailure::Unsupported, "does not take this kind of address"),
        _ => (ProxyFailure::Unreachable, "could not connect to the target"),
    };
    Err(Refusal::new(trouble, reason))
}

async fn read<const N: usize, S: AsyncRead + Unpin>(stream: &mut S) -> Result<[u8; N], Refusal> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a proxy that says `answer`, and what it was told.
    async fn told(entry: &str, to: &Destination, answer: &[u8]) -> (Result<(), ProxyFailure>, Vec<u8>) {
        let proxy = Proxy::parse(entry, None).unwrap();
        let (mut ours, mut its) = tokio::io::duplex(64 * 1024);
        its.write_all(answer).await.unwrap();
        let opened = open(&mut ours, &proxy, to).await.map_err(|refusal| refusal.trouble);
        drop(ours);
        let mut heard = Vec::new();
        its.read_to_end(&mut heard).await.unwrap();
        (opened, heard)
    }

    fn name() -> Destination {
        Destination::Name("shop.test".into(), 443)
    }

    #[tokio::test]
    async fn http_proxies_are_told_what_rfc_9110_says() {
        let (opened, heard) =
            told("http://me:pw@p.test:1", &name(), b"HTTP/1.1 200 Connection established\r\n\r\n").await;
        assert_eq!(opened, Ok(()));
        let expected = "CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\nProxy-Authorization: Basic bWU6cHc=\r\n\r\n";
        assert_eq!(String::from_utf8(heard).unwrap(), expected);
        let v6 = Destination::Address("[2001:db8::1]:80".parse().unwrap());
        let (_, heard) = told("http://p.test:1", &v6, b"HTTP/1.0 200\r\n\r\n").await;
        assert!(heard.starts_with(b"CONNECT [2001:db8::1]:80 HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n"));
    }

    #[tokio::test]
    async fn an_http_answer_says_whose_trouble_it_is() {
        for (answer, trouble) in [
            ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", ProxyFailure::BadLogin),
            ("HTTP/1.1 402 Pay\r\n\r\n", ProxyFailure::NoCredits),
            ("HTTP/1.1 429 Slow\r\nRetry-After: 7\r\n\r\n", ProxyFailure::Throttled),
            ("HTTP/1.1 403 Forbidden\r\n\r\nbody", ProxyFailure::Unsupported),
            ("HTTP/1.1 502 Bad Gateway\r\n\r\n", ProxyFailure::Unreachable),
            ("HTTP/1.1 504 Gateway Timeout\r\n\r\n", ProxyFailure::Silent),
            ("HTTP/1.1 200 OK\r\n\r\n<html>", ProxyFailure::Down),
            ("HTTP/2 200\r\n\r\n", ProxyFailure::Down),
            ("SSH-2.0-OpenSSH_9.2\r\n\r\n", ProxyFailure::Down),
            ("HTTP/1.1 2000 OK\r\n\r\n", ProxyFailure::Down),
        ] {
            let (opened, _) = told("http://p.test:1", &name(), answer.as_bytes()).await;
            assert_eq!(opened, Err(trouble), "{answer:?}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\n{}", "x: y\r\n".repeat(10_000));
        let (opened, _) = told("http://p.test:1", &name(), &endless.as_bytes()[..40_000]).await;
        assert_eq!(opened, Err(ProxyFailure::Down));
        assert_eq!(
            by_status(429, "HTTP/1.1 429 Slow\r\nretry-after: 7\r\n\r\n").retry_after,
            Some(Duration::from_secs(7))
        );
    }

    #[tokio::test]
    async fn socks_proxies_are_told_what_rfc_1928_says() {
        let granted = [5, 0, 5, 0, 0, IPV4, 127, 0, 0, 1, 0, 80];
        let (opened, heard) = told("socks5h://p.test:1", &name(), &granted).await;
        assert_eq!(opened, Ok(()));
        let mut expected = vec![5, 1, 0, 5, 1, 0, NAME, 9];
        expected.extend(b"shop.test");
        expected.extend(443_u16.to_be_bytes());
        assert_eq!(heard, expected);

        let mut granted = vec![5, BY_PASSWORD, 1, 0, 5, 0, 0, NAME, 3];
        granted.extend(b"abc\0\x50");
        let to = Destination::Address("1.2.3.4:80".parse().unwrap());
        let (opened, heard) = told("socks5://me:pw@p.test:1", &to, &granted).await;
        assert_eq!(opened, Ok(()));
        assert_eq!(
            heard,
            [&[5, 2, 0, 2, 1, 2][..], b"me", &[2], b"pw", &[5, 1, 0, IPV4, 1, 2, 3, 4, 0, 80]].concat()
        );
    }

    #[tokio::test]
    async fn a_socks_reply_says_whose_trouble_it_is() {
        for (answer, trouble) in [
            (&[5, 0xff][..], ProxyFailure::BadLogin),
            (&[5, 2, 1, 1], ProxyFailure::BadLogin),
            (&[4, 90], ProxyFailure::Down),
            (b"HTTP/1.1 400 Bad\r\n\r\n", ProxyFailure::Down),
            (&[5, 0], ProxyFailure::Down),
            (&[], ProxyFailure::Down),
            (&[5, 0, 5, 1, 0, 1, 0, 0, 0, 0, 0, 0], ProxyFailure::Unreachable),
            (&[5, 0, 5, 2, 0, 1, 0, 0, 0, 0, 0, 0], ProxyFailure::Unsupported),
            (&[5, 0, 5, 4, 0, 1, 0, 0, 0, 0, 0, 0], ProxyFailure::Unreachable),
            (&[5, 0, 5, 6, 0, 1, 0, 0, 0, 0, 0, 0], ProxyFailure::Silent),
            (&[5, 0, 5, 0, 0, 9, 0, 0, 0, 0, 0, 0], ProxyFailure::Down),
        ] {
            let proxy = Proxy::parse("socks5://me:pw@p.test:1", None).unwrap();
            let (mut ours, mut its) = tokio::io::duplex(4_096);
            its.write_all(answer).await.unwrap();
            its.shutdown().await.unwrap();
            let refusal = open(&mut ours, &proxy, &name()).await.unwrap_err();
            assert_eq!(refusal.trouble, trouble, "{answer:?}: {}", refusal.reason);
        }
    }
}
