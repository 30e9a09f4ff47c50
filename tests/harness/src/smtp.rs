//! A mail server on loopback that does what a test tells it: takes messages, refuses them for now or for good, hangs,
//! breaks off; in the clear or with STARTTLS.

use parking_lot::Mutex;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// What the server does at one point of the dialogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// What a server does.
    Accept,
    /// Answers this.
    Answer(&'static str),
    /// Says nothing more, and keeps the connection.
    Hang,
    /// Closes the connection.
    Drop,
}

/// How the server behaves, by what it is asked; a test changes it while it runs.
#[derive(Clone, Debug)]
pub struct Manners {
    pub greeting: Act,
    /// The mechanisms of login that it offers.
    pub mechanisms: &'static str,
    pub auth: Act,
    pub mail: Act,
    /// What becomes of an address that contains this; all others are accepted.
    pub rcpt: (&'static str, Act),
    /// After the whole message has been read.
    pub message: Act,
    /// Said behind the answer to STARTTLS, in the clear.
    pub injected: &'static str,
}

impl Default for Manners {
    fn default() -> Manners {
        Manners {
            greeting: Act::Accept,
            mechanisms: "PLAIN LOGIN",
            auth: Act::Accept,
            mail: Act::Accept,
            rcpt: ("", Act::Accept),
            message: Act::Accept,
            injected: "",
        }
    }
}

/// A message as the server has read it.
#[derive(Clone, Debug)]
pub struct Received {
    pub from: String,
    pub to: Vec<String>,
    /// Head and body, lines ended by CRLF, without the dots that transport has added.
    pub data: String,
    /// Whether it came through TLS.
    pub is_encrypted: bool,
    /// User name and password, when somebody has logged in.
    pub login: Option<String>,
    /// Whether the server has said that it took it.
    pub is_taken: bool,
}

impl Received {
    /// The value of a head field, unfolded.
    pub fn header(&self, name: &str) -> Option<String> {
        let head = self.data.split("\r\n\r\n").next()?.replace("\r\n ", " ").replace("\r\n\t", " ");
        let line = head
            .lines()
            .find(|line| line.split_once(':').is_some_and(|(field, _)| field.eq_ignore_ascii_case(name)))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    }

    /// Its text and its HTML, decoded.
    pub fn parts(&self) -> Vec<String> {
        let content = self.header("content-type").unwrap_or_default();
        let Some((_, boundary)) = content.split_once("boundary=") else { return vec![decoded(&self.data)] };
        let mark = format!("--{}", boundary.trim_matches('"'));
        let parts: Vec<&str> = self.data.split(mark.as_str()).collect();
        parts[1..parts.len() - 1].iter().map(|part| decoded(part.trim_start_matches("\r\n"))).collect()
    }

    /// The token that begins with `prefix` in its text.
    pub fn token(&self, prefix: &str) -> Option<String> {
        super::token_in(&self.parts()[0], prefix)
    }
}

/// The body of a part, its transfer encoding undone.
fn decoded(part: &str) -> String {
    use base64::Engine;
    let (head, body) = part.split_once("\r\n\r\n").expect("a part has a head and a body");
    let head = head.to_ascii_lowercase();
    if head.contains("transfer-encoding: base64") {
        let text: String = body.split_whitespace().collect();
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).expect("base64");
        return String::from_utf8(bytes).expect("text");
    }
    if !head.contains("transfer-encoding: quoted-printable") {
        return body.to_owned();
    }
    let joined = body.replace("=\r\n", "");
    let (mut bytes, mut rest) = (Vec::new(), joined.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| byte == b'=').and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(value) => {
                bytes.push(value);
                rest = &after[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).expect("text")
}

struct Shared {
    manners: Mutex<Manners>,
    received: Mutex<Vec<Received>>,
    connections: AtomicUsize,
    tls: Option<TlsAcceptor>,
    /// Whether TLS begins with the first byte.
    is_wrapped: bool,
}

/// A running mail server; it ends when this is dropped.
pub struct MailServer {
    pub address: SocketAddr,
    /// Its certificate as PEM, when it speaks TLS.
    pub certificate: Option<String>,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl MailServer {
    /// A server in the clear.
    pub async fn plain() -> MailServer {
        MailServer::open(None, None, false).await
    }

    /// A server with STARTTLS, or with TLS from the first byte, whose certificate is for `127.0.0.1`.
    pub async fn tls(is_wrapped: bool) -> MailServer {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring supports the default TLS versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("they belong together");
        MailServer::open(Some(TlsAcceptor::from(Arc::new(config))), Some(made.cert.pem()), is_wrapped).await
    }

    async fn open(tls: Option<TlsAcceptor>, certificate: Option<String>, is_wrapped: bool) -> MailServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            manners: Mutex::default(),
            received: Mutex::default(),
            connections: AtomicUsize::new(0),
            tls,
            is_wrapped,
        });
        let serving = shared.clone();
        let accepting = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                serving.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(serving.clone(), stream));
            }
        });
        MailServer { address, certificate, shared, accepting }
    }

    /// The settings of an appliance that sends through it. `folder` is where its certificate is put.
    pub fn settings(&self, folder: &Path) -> Vec<(&'static str, String)> {
        let mut settings = vec![
            ("MAIL__HOST", "127.0.0.1".to_owned()),
            ("MAIL__PORT", self.address.port().to_string()),
            ("MAIL__FROM", "Gleaner <box@example.com>".to_owned()),
        ];
        let security = match &self.certificate {
            None => "none",
            Some(certificate) => {
                let file = folder.join("mail-ca.pem");
                std::fs::write(&file, certificate).expect("a file in the test's folder");
                settings.push(("MAIL__CA_FILE", file.display().to_string()));
                if self.shared.is_wrapped { "tls" } else { "starttls" }
            }
        };
        settings.push(("MAIL__SECURITY", security.to_owned()));
        settings
    }

    /// Changes how it behaves from the next command on.
    pub fn behave(&self, change: impl FnOnce(&mut Manners)) {
        change(&mut self.shared.manners.lock());
    }

    /// Every message whose end it has read, taken or not.
    pub fn received(&self) -> Vec<Received> {
        self.shared.received.lock().clone()
    }

    /// Connections that were made to it.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// One connection. None at the end of it: what remains is to close.
async fn serve(shared: Arc<Shared>, stream: TcpStream) -> Option<()> {
    let mut stream: BufReader<Box<dyn Io>> = BufReader::new(Box::new(stream));
    let mut is_encrypted = false;
    if shared.is_wrapped {
        let tls = shared.tls.clone()?.accept(stream.into_inner()).await.ok()?;
        stream = BufReader::new(Box::new(tls));
        is_encrypted = true;
    }
    let (mut from, mut to, mut login) = (String::new(), Vec::new(), None);
    let greeting = shared.manners.lock().greeting.clone();
    act(&mut stream, greeting, "220 mail.test ESMTP").await?;
    loop {
        let line = read_line(&mut stream).await?;
        let verb = line.to_ascii_uppercase();
        let manners = shared.manners.lock().clone();
        if verb.starts_with("EHLO") {
            let starttls = if shared.tls.is_some() && !is_encrypted { "250-STARTTLS\r\n" } else { "" };
            let offers =
                format!("250-mail.test\r\n{starttls}250-AUTH {}\r\n250 8BITMIME\r\n", manners.mechanisms);
            say(&mut stream, &offers).await?;
        } else if verb == "STARTTLS" {
            say(&mut stream, &format!("220 go ahead\r\n{}", manners.injected)).await?;
            let tls = shared.tls.clone()?.accept(stream.into_inner()).await.ok()?;
            stream = BufReader::new(Box::new(tls));
            is_encrypted = true;
        } else if let Some(words) = line.strip_prefix("AUTH PLAIN ") {
            use base64::Engine;
            let words = base64::engine::general_purpose::STANDARD.decode(words).ok()?;
            login = Some(String::from_utf8(words).ok()?.replace('\0', " ").trim().to_owned());
            act(&mut stream, manners.auth, "235 welcome").await?;
        } else if verb == "AUTH LOGIN" {
            let mut words = Vec::new();
            for question in ["VXNlcm5hbWU6", "UGFzc3dvcmQ6"] {
                use base64::Engine;
                say(&mut stream, &format!("334 {question}\r\n")).await?;
                let answer = read_line(&mut stream).await?;
                let answer = base64::engine::general_purpose::STANDARD.decode(answer).ok()?;
                words.push(String::from_utf8(answer).ok()?);
            }
            login = Some(words.join(" "));
            act(&mut stream, manners.auth, "235 welcome").await?;
        } else if let Some(address) = verb.strip_prefix("MAIL FROM:") {
            from = address.trim_matches(['<', '>']).to_ascii_lowercase();
            to.clear();
            act(&mut stream, manners.mail, "250 ok").await?;
        } else if let Some(address) = verb.strip_prefix("RCPT TO:") {
            let address = address.trim_matches(['<', '>']).to_ascii_lowercase();
            let (part, refusal) = manners.rcpt;
            let is_meant = !part.is_empty() && address.contains(part);
            to.push(address);
            act(&mut stream, if is_meant { refusal } else { Act::Accept }, "250 ok").await?;
        } else if verb == "DATA" {
            say(&mut stream, "354 go on\r\n").await?;
            let data = read_data(&mut stream).await?;
            let message = shared.manners.lock().message.clone();
            let received = Received {
                from: from.clone(),
                to: to.clone(),
                data,
                is_encrypted,
                login: login.clone(),
                is_taken: message == Act::Accept,
            };
            shared.received.lock().push(received);
            act(&mut stream, message, "250 queued").await?;
        } else if verb == "RSET" {
            say(&mut stream, "250 ok\r\n").await?;
        } else if verb == "QUIT" {
            say(&mut stream, "221 bye\r\n").await?;
            return None;
        } else {
            say(&mut stream, "502 what?\r\n").await?;
        }
    }
}

async fn act(stream: &mut BufReader<Box<dyn Io>>, act: Act, usual: &str) -> Option<()> {
    match act {
        Act::Accept => say(stream, &format!("{usual}\r\n")).await,
        Act::Answer(answer) => say(stream, &format!("{answer}\r\n")).await,
        Act::Drop => None,
        Act::Hang => {
            // Until the other side gives up.
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.ok();
            None
        }
    }
}

async fn say(stream: &mut BufReader<Box<dyn Io>>, text: &str) -> Option<()> {
    stream.get_mut().write_all(text.as_bytes()).await.ok()?;
    stream.get_mut().flush().await.ok()
}

async fn read_line(stream: &mut BufReader<Box<dyn Io>>) -> Option<String> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|bytes| *bytes > 0)?;
    Some(line.trim_end_matches(['\r', '\n']).to_owned())
}

async fn read_data(stream: &mut BufReader<Box<dyn Io>>) -> Option<String> {
    let mut data = String::new();
    loop {
        let line = read_line(stream).await?;
        if line == "." {
            return Some(data);
        }
        data.push_str(line.strip_prefix('.').unwrap_or(&line));
        data.push_str("\r\n");
    }
}
