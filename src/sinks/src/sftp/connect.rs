//! A connection: through the address guard, to the server with the pinned key, logged in, and with SFTP begun.

use super::fault::{SftpFault, SftpFaultKind};
use super::settings::{Login, Pin, Settings, private_key};
use super::wire::Wire;
use crate::bounded::Bounded;
use crate::postgres::place;
use fetch::Connector;
use russh::client::{self, AuthResult, Handle, Handler, KeyboardInteractiveAuthResponse};
use russh::keys::{HashAlg, PrivateKeyWithHashAlg, PublicKeyOrCertificate};
use russh::{MethodKind, MethodSet, Preferred};
use std::borrow::Cow;
use std::future::Future;
use std::io;
use std::pin::Pin as Pinned;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long a server has for SSH's handshake, and to let us in and begin SFTP.
const HANDSHAKE_TIME: Duration = Duration::from_secs(20);
const LOGIN_TIME: Duration = Duration::from_secs(30);
/// How long a connection lasts on which the server says nothing.
const SILENT_TIME: Duration = Duration::from_secs(120);
/// Bytes that a server may say in a session: its answers are short, but for what is read back of a Delta log.
const READ_BYTES_MAX: usize = 64 << 20;
/// Rounds of questions that a server may ask before it lets us in.
const QUESTIONS_MAX: usize = 4;

/// Looks at the server's key.
struct Guard {
    pin: Pin,
    /// What another server showed.
    other: Arc<Mutex<Option<String>>>,
}

impl Handler for Guard {
    type Error = russh::Error;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, russh::Error> {
        let told = match shown {
            PublicKeyOrCertificate::PublicKey { key, .. } if self.pin.is(key) => return Ok(true),
            PublicKeyOrCertificate::PublicKey { key, .. } => {
                format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256))
            }
            PublicKeyOrCertificate::Certificate(_) => "a certificate".to_owned(),
        };
        if let Ok(mut other) = self.other.lock() {
            *other = Some(told);
        }
        Ok(false)
    }
}

/// A stream that ends when whoever owns it lets go: russh reads it in a task of its own.
struct Leash {
    stream: Bounded<TcpStream>,
    held: oneshot::Receiver<()>,
}

impl AsyncRead for Leash {
    fn poll_read(
        mut self: Pinned<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if Pinned::new(&mut self.held).poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pinned::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Leash {
    fn poll_write(
        mut self: Pinned<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if Pinned::new(&mut self.held).poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pinned::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pinned<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pinned::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pinned<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pinned::new(&mut self.stream).poll_shutdown(context)
    }
}

pub(super) async fn open(connector: &Connector, settings: &Settings) -> Result<Wire, SftpFault> {
    let refused = |told: String| SftpFault::new(SftpFaultKind::Refused, told);
    let at = place(&settings.host, settings.port).map_err(|told| refused(format!("host: {told}")))?;
    let pin = Pin::parse(&settings.host_key).map_err(|told| refused(format!("hostKey: {told}")))?;
    let mut preferred = Preferred::default();
    if let Some(algorithm) = pin.algorithm() {
        // A server with several keys is to show the one that is known.
        preferred.key = Cow::Owned(vec![algorithm]);
    }
    let config = client::Config {
        preferred,
        inactivity_timeout: Some(SILENT_TIME),
        nodelay: true,
        ..client::Config::default()
    };
    let stream = connector.tcp(&at).await?;
    let (leash, held) = oneshot::channel();
    let stream = Leash { stream: Bounded::new(stream, READ_BYTES_MAX), held };
    let other = Arc::new(Mutex::new(None));
    let guard = Guard { pin, other: Arc::clone(&other) };
    let connected = timeout(HANDSHAKE_TIME, client::connect_stream(Arc::new(config), stream, guard)).await;
    let connected = connected.map_err(|_elapsed| SftpFault::slow("end SSH's handshake", HANDSHAKE_TIME))?;
    let mut session = match connected {
        Ok(session) => session,
        Err(error) => {
            let other = other.lock().ok().and_then(|mut other| other.take());
            return Err(match other {
                Some(shown) => SftpFault::new(
                    SftpFaultKind::OtherServer,
                    format!("the server shows another key than the one that is pinned (hostKey): {shown}"),
                ),
                None => error.into(),
            });
        }
    };
    let begun = async {
        log_in(&mut session, settings).await?;
        let channel = session.channel_open_session().await?;
        channel.request_subsystem(true, "sftp").await?;
        Wire::begin(Box::new(channel.into_stream()), Box::new((session, leash))).await
    };
    timeout(LOGIN_TIME, begun).await.unwrap_or_else(|_elapsed| Err(SftpFault::slow("let us in", LOGIN_TIME)))
}

async fn log_in(session: &mut Handle<Guard>, settings: &Settings) -> Result<(), SftpFault> {
    let user = settings.user.as_str();
    let result = match &settings.login {
        Login::Key(key) => {
            let key = private_key(key)
                .map_err(|told| SftpFault::new(SftpFaultKind::Refused, format!("privateKey {told}")))?;
            session.authenticate_publickey(user, PrivateKeyWithHashAlg::new(Arc::new(key), None)).await?
        }
        Login::Password(password) => {
            let result = session.authenticate_password(user, password).await?;
            match &result {
                AuthResult::Failure { remaining_methods, .. }
                    if remaining_methods.contains(&MethodKind::KeyboardInteractive)
                        && !remaining_methods.contains(&MethodKind::Password) =>
                {
                    return asked(session, user, password).await;
                }
                _ => result,
            }
        }
    };
    match result {
        AuthResult::Success => Ok(()),
        AuthResult::Failure { remaining_methods, partial_success } => {
            Err(not_let_in(user, &remaining_methods, partial_success))
        }
    }
}

/// The password as the answer to the server's one question, for servers that ask so.
async fn asked(session: &mut Handle<Guard>, user: &str, password: &str) -> Result<(), SftpFault> {
    let mut said = session.authenticate_keyboard_interactive_start(user, None).await?;
    for _ in 0..QUESTIONS_MAX {
        match said {
            KeyboardInteractiveAuthResponse::Success => return Ok(()),
            KeyboardInteractiveAuthResponse::Failure { remaining_methods, partial_success } => {
                return Err(not_let_in(user, &remaining_methods, partial_success));
            }
            KeyboardInteractiveAuthResponse::InfoRequest { prompts, .. } => {
                // The password goes to one question, and to none that shows it.
                let answers: Vec<_> = match &prompts[..] {
                    [] => Vec::new(),
                    [one] if !one.echo => vec![password.to_owned()],
                    _ => {
                        let told = "the server asks for more than a password";
                        return Err(SftpFault::new(SftpFaultKind::Refused, told));
                    }
                };
                said = session.authenticate_keyboard_interactive_respond(answers).await?;
            }
        }
    }
    Err(SftpFault::new(SftpFaultKind::Refused, "the server asks again and again"))
}

fn not_let_in(user: &str, remaining: &MethodSet, is_partial: bool) -> SftpFault {
    let methods: Vec<_> = remaining.iter().map(String::from).collect();
    let more = if is_partial { "it wants a second proof besides" } else { "it takes" };
    let told = format!("the server does not let {user} in ({more}: {})", methods.join(", "));
    SftpFault::new(SftpFaultKind::Refused, told)
}
