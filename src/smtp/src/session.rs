//! One connection to the mail server: greeting, STARTTLS, login, and as many messages as there are.
//!
//! Until a message is on its way, whatever goes wrong is the server's or the settings' fault and concerns every message:
//! [`Fault::Server`]. An answer to a message's own commands is that message's, save one that asks for a login (RFC 4954,
//! section 6) or closes the connection (421).

use super::message::Written;
use super::{Fault, MESSAGE_TIMES, Outgoing, Security, Smtp};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::commands::{Auth, Data, Ehlo, Mail, Quit, Rcpt, Rset, Starttls};
use lettre::transport::smtp::extension::ClientId;
use std::fmt::{self, Display};
use std::io;
use std::net::IpAddr;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;

/// A reply line; RFC 5321, section 4.5.3.1.5, has 512, some servers more.
const LINE_BYTES_MAX: u64 = 2_000;
/// Lines of one reply; an EHLO has some twenty.
const REPLY_LINES_MAX: usize = 100;
/// Characters of a server's words that are kept.
const REASON_CHARS_MAX: usize = 300;
/// Challenges of one login; LOGIN has two.
const CHALLENGES_MAX: usize = 4;
/// Addresses of the server's name that are tried.
const ADDRESSES_MAX: usize = 4;
/// Replies that ask for a login, or refuse it: a matter of the settings and not of a message (RFC 4954, section 6).
const LOGIN_CODES: &[u16] = &[530, 534, 535, 538];

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection that has been let in.
pub struct Session<'s> {
    smtp: &'s Smtp,
    stream: BufReader<Box<dyn Io>>,
    /// What the server's EHLO offers, in upper case, such as `AUTH PLAIN LOGIN`.
    offers: Vec<String>,
    is_over: bool,
}

/// What the server said.
struct Reply {
    code: u16,
    lines: Vec<String>,
}

impl Reply {
    fn is_good(&self) -> bool {
        (200..400).contains(&self.code)
    }
}

impl Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: String = self.lines.join(" ").chars().take(REASON_CHARS_MAX).collect();
        write!(f, "{} {}", self.code, words.replace(|c: char| c.is_control(), " ").trim())
    }
}

impl<'s> Session<'s> {
    pub(super) async fn open(smtp: &'s Smtp) -> Result<Session<'s>, Fault> {
        let stream = connect(smtp).await?;
        let security = smtp.settings.security;
        let stream = if security == Security::Tls { encrypt(smtp, stream).await? } else { stream };
        let stream = BufReader::new(stream);
        let mut session = Session { smtp, stream, offers: Vec::new(), is_over: false };
        let greeting = session.reply("the greeting", 1).await?;
        session.let_in("the greeting", &greeting)?;
        session.hello().await?;
        if security == Security::Starttls {
            session = session.starttls().await?;
        }
        if let Some((user, password)) = &smtp.settings.login {
            session.log_in(Credentials::new(user.clone(), password.0.clone())).await?;
        }
        Ok(session)
    }

    /// Hands the server one message. After a [`Fault::Server`] the session is of no more use, nor where it [`Session::is_over`].
    pub async fn send(&mut self, message: &Outgoing) -> Result<(), Fault> {
        let settings = &self.smtp.settings;
        let written = message.write(&settings.from, settings.reply_to.as_ref()).map_err(Fault::Permanent)?;
        let sent = self.transact(&written).await;
        if matches!(sent, Err(Fault::Temporary(_) | Fault::Permanent(_) | Fault::Recipient(_))) {
            // The next message begins anew. A server that refuses one and hangs up has refused it all the same: else that
            // message would be tried first again and again, and keep those behind it.
            self.is_over = self.command(Rset, "RSET").await.is_err();
        }
        sent
    }

    /// Whether the server has ended the session behind its answer to a message.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Ends the session politely; a server that does not answer is left alone.
    pub async fn quit(mut self) {
        let _ = self.command(Quit, "QUIT").await;
        let _ = timeout(self.smtp.settings.timeout, self.stream.get_mut().shutdown()).await;
    }

    async fn transact(&mut self, written: &Written) -> Result<(), Fault> {
        let sender = written.envelope.from().cloned();
        let reply = self.command(Mail::new(sender, Vec::new()), "MAIL FROM").await?;
        taken("the sender", &reply, 2)?;
        for to in written.envelope.to() {
            let reply = self.command(Rcpt::new(to.clone(), Vec::new()), "RCPT TO").await?;
            taken("the address", &reply, 2).map_err(of_recipient)?;
        }
        let reply = self.command(Data, "DATA").await?;
        taken("the message", &reply, 3).map_err(of_recipient)?;
        self.write(&written.bytes, "the message").await?;
        let reply = self.reply("the message", MESSAGE_TIMES).await?;
        taken("the message", &reply, 2).map_err(of_recipient)
    }

    async fn hello(&mut self) -> Result<(), Fault> {
        let name = self.smtp.settings.hello.clone().map_or_else(ClientId::default, ClientId::Domain);
        let reply = self.command(Ehlo::new(name), "EHLO").await?;
        self.let_in("EHLO", &reply)?;
        self.offers = reply.lines.iter().skip(1).map(|line| line.trim().to_ascii_uppercase()).collect();
        Ok(())
    }

    async fn starttls(mut self) -> Result<Session<'s>, Fault> {
        if !self.offers.iter().any(|offer| offer == "STARTTLS") {
            return Err(self.fault("it does not offer STARTTLS (see mail.security)"));
        }
        let reply = self.command(Starttls, "STARTTLS").await?;
        self.let_in("STARTTLS", &reply)?;
        // What was sent in the clear behind that answer would be read as if it had come through TLS.
        if !self.stream.buffer().is_empty() {
            return Err(self.fault("it said more than it should before TLS; somebody may stand in between"));
        }
        let stream = encrypt(self.smtp, self.stream.into_inner()).await?;
        let stream = BufReader::new(stream);
        let mut session = Session { smtp: self.smtp, stream, offers: Vec::new(), is_over: false };
        session.hello().await?;
        Ok(session)
    }

    async fn log_in(&mut self, credentials: Credentials) -> Result<(), Fault> {
        let offered = |mechanism: &Mechanism| {
            let name = mechanism.to_string();
            let all = self.offers.iter().filter_map(|offer| offer.strip_prefix("AUTH "));
            all.flat_map(str::split_whitespace).any(|word| word == name)
        };
        let Some(mechanism) = [Mechanism::Plain, Mechanism::Login].into_iter().find(offered) else {
            return Err(self.fault("it offers no login with a user name and a password (see mail.username)"));
        };
        let mut challenge = None;
        for _ in 0..=CHALLENGES_MAX {
            let command = Auth::new(mechanism, credentials.clone(), challenge.take());
            let reply = self.command(command.map_err(|e| self.fault(e))?, "AUTH").await?;
            if reply.code != 334 {
                return self.let_in("the login", &reply);
            }
            let words = reply.lines.first().map(|line| STANDARD.decode(line.trim()));
            let words = words.and_then(Result::ok).and_then(|bytes| String::from_utf8(bytes).ok());
            challenge =
                Some(words.ok_or_else(|| self.fault("its login asks something that cannot be read"))?);
        }
        Err(self.fault("its login does not come to an end"))
    }

    /// Sends a command and reads the answer. Fails only when there is none.
    async fn command(&mut self, command: impl Display, what: &str) -> Result<Reply, Fault> {
        self.write(command.to_string().as_bytes(), what).await?;
        self.reply(what, 1).await
    }

    async fn write(&mut self, bytes: &[u8], what: &str) -> Result<(), Fault> {
        let stream = self.stream.get_mut();
        let write = async {
            stream.write_all(bytes).await?;
            stream.flush().await
        };
        match timeout(self.smtp.settings.timeout * MESSAGE_TIMES, write).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.fault(format_args!("it broke off at {what}: {error}"))),
            Err(_elapsed) => Err(self.fault(format_args!("it stopped reading at {what}"))),
        }
    }

    /// Reads one reply, which may take `times` the usual time.
    async fn reply(&mut self, what: &str, times: u32) -> Result<Reply, Fault> {
        let wait = self.smtp.settings.timeout * times;
        match timeout(wait, read_reply(&mut self.stream)).await {
            Ok(Ok(reply)) if reply.code == 421 => {
                Err(self.fault(format_args!("it closes at {what}: {reply}")))
            }
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(self.fault(format_args!("it broke off at {what}: {error}"))),
            Err(_elapsed) => {
                Err(self.fault(format_args!("no answer to {what} within {} seconds", wait.as_secs_f32())))
            }
        }
    }

    /// A refusal of the box as such.
    fn let_in(&self, what: &str, reply: &Reply) -> Result<(), Fault> {
        if reply.is_good() { Ok(()) } else { Err(self.fault(format_args!("it refuses {what}: {reply}"))) }
    }

    fn fault(&self, reason: impl Display) -> Fault {
        fault(self.smtp, reason)
    }
}

fn fault(smtp: &Smtp, reason: impl Display) -> Fault {
    Fault::Server(format!(
        "the mail server {}:{} cannot be used: {reason}",
        smtp.settings.host, smtp.settings.port
    ))
}

/// What an answer to a message's own command means for it; `wanted` is the class of a good one.
fn taken(what: &str, reply: &Reply, wanted: u16) -> Result<(), Fault> {
    let refusal = || format!("the mail server refuses {what}: {reply}");
    match reply.code {
        code if code / 100 == wanted => Ok(()),
        code if LOGIN_CODES.contains(&code) => Err(Fault::Server(refusal())),
        500.. => Err(Fault::Permanent(refusal())),
        400.. => Err(Fault::Temporary(refusal())),
        _ => Err(Fault::Server(format!("the mail server answers {what} with something else: {reply}"))),
    }
}

/// A refusal behind the sender's is one of this person.
fn of_recipient(fault: Fault) -> Fault {
    match fault {
        Fault::Permanent(reason) => Fault::Recipient(reason),
        other => other,
    }
}

/// Connects to the first of the server's addresses that accepts.
async fn connect(smtp: &Smtp) -> Result<Box<dyn Io>, Fault> {
    let settings = &smtp.settings;
    let wait = settings.timeout;
    let found = timeout(wait, tokio::net::lookup_host((settings.host.as_str(), settings.port))).await;
    let addresses = match found {
        Ok(Ok(addresses)) => addresses.take(ADDRESSES_MAX),
        Ok(Err(error)) => return Err(fault(smtp, format_args!("its name is not known: {error}"))),
        Err(_elapsed) => return Err(fault(smtp, "looking up its name took too long")),
    };
    let mut failure = fault(smtp, "its name has no address");
    for address in addresses {
        match timeout(wait, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Commands are single small writes. A failure here costs speed only.
                stream.set_nodelay(true).ok();
                return Ok(Box::new(stream));
            }
            Ok(Err(error)) => failure = fault(smtp, error),
            Err(_elapsed) => {
                failure = fault(smtp, format_args!("no connection within {} seconds", wait.as_secs_f32()));
            }
        }
    }
    Err(failure)
}

async fn encrypt(smtp: &Smtp, stream: Box<dyn Io>) -> Result<Box<dyn Io>, Fault> {
    let host = &smtp.settings.host;
    let name = match host.parse::<IpAddr>() {
        Ok(ip) => ServerName::from(ip),
        Err(_) => ServerName::try_from(host.clone()).map_err(|e| fault(smtp, e))?,
    };
    match timeout(smtp.settings.timeout, smtp.tls.connect(name, stream)).await {
        Ok(Ok(stream)) => Ok(Box::new(stream)),
        Ok(Err(error)) => {
            let error = error.to_string();
            Err(fault(smtp, format_args!("TLS failed: {error}{}", tls_hint(&error))))
        }
        Err(_elapsed) => Err(fault(smtp, "TLS took too long")),
    }
}

/// What an operator can do about the two failures that servers inside a company have most.
fn tls_hint(error: &str) -> &'static str {
    if error.contains("UnknownIssuer") {
        " (no authority vouches for its certificate; see mail.ca_file)"
    } else if error.contains("CaUsedAsEndEntity") {
        " (its certificate is marked as an authority's; give the server one with CA:FALSE)"
    } else {
        ""
    }
}

/// Reads the lines of one reply (RFC 5321, section 4.2).
async fn read_reply(stream: &mut BufReader<Box<dyn Io>>) -> io::Result<Reply> {
    let malformed = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut reply: Option<Reply> = None;
    for _ in 0..REPLY_LINES_MAX {
        let mut line = Vec::new();
        (&mut *stream).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed"));
        }
        if line.last() != Some(&b'\n') {
            return Err(malformed("a line of the answer is too long"));
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches(['\r', '\n']);
        let code = line.get(..3).and_then(|digits| digits.parse::<u16>().ok());
        let code = code
            .filter(|code| (200..600).contains(code))
            .ok_or_else(|| malformed("it does not speak SMTP"))?;
        let (is_last, words) = match line.as_bytes().get(3) {
            None => (true, ""),
            Some(b' ') => (true, &line[4..]),
            Some(b'-') => (false, &line[4..]),
            Some(_) => return Err(malformed("it does not speak SMTP")),
        };
        let reply = reply.get_or_insert(Reply { code, lines: Vec::new() });
        if reply.code != code {
            return Err(malformed("its answer has two codes"));
        }
        reply.lines.push(words.to_owned());
        if is_last {
            return Ok(Reply { code, lines: std::mem::take(&mut reply.lines) });
        }
    }
    Err(malformed("its answer has too many lines"))
}
