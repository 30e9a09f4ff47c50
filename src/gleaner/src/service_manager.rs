//! What a service manager is told (sd_notify(3)): that the box is ready, that it lives, and that it ends; and the sockets that
//! it holds open for the box (sd_listen_fds(3)), so that nobody is turned away between an end and the next start.
//!
//! systemd names a socket in the environment of what it starts (`Type=notify`) and, where the unit has `WatchdogSec=`, how often it
//! wants to hear of the box. Without them nothing is said. Nobody waits for it: a manager that takes no message gets none.

use base::{Error, Result};
use listenfd::ListenFd;
use server::Inherited;
use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The manager that has started this process, if one listens.
pub struct ServiceManager {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear that the box lives: twice within the time after which it ends it.
    beat: Option<Duration>,
}

impl ServiceManager {
    /// What the environment names. A socket that cannot be used is said in the log, and is none.
    pub fn of_environment() -> ServiceManager {
        let to = env::var_os("NOTIFY_SOCKET").and_then(|place| match open(&place) {
            Ok(to) => Some(to),
            Err(error) => {
                tracing::warn!(%error, ?place, "the service manager cannot be told anything: NOTIFY_SOCKET");
                None
            }
        });
        let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let is_meant = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let within = number("WATCHDOG_USEC").filter(|usec| *usec > 0 && is_meant);
        let beat = to.as_ref().and(within).map(|usec| Duration::from_micros(usec) / 2);
        ServiceManager { to, beat }
    }

    /// The box answers requests at this address.
    pub fn ready(&self, url: &str) {
        self.tell(&format!("READY=1\nSTATUS=Serving at {url}"));
    }

    /// It ends, and may take so long.
    pub fn stopping(&self, within: Duration) {
        let usec = within.as_micros();
        self.tell(&format!("STOPPING=1\nSTATUS=Ending requests and jobs\nEXTEND_TIMEOUT_USEC={usec}"));
    }

    /// Says that the box lives, as often as that is wanted, for ever. What is said comes from a task, so it ends where
    /// the threads that answer requests do no work any more.
    pub async fn keep_alive(&self) {
        let Some(beat) = self.beat else { return std::future::pending().await };
        loop {
            if tokio::spawn(tokio::task::yield_now()).await.is_ok() {
                self.tell("WATCHDOG=1");
            }
            tokio::time::sleep(beat).await;
        }
    }

    fn tell(&self, message: &str) {
        let Some((socket, to)) = &self.to else { return };
        if let Err(error) = socket.send_to_addr(message.as_bytes(), to) {
            tracing::debug!(%error, "the service manager was not told");
        }
    }
}

/// The sockets that the service manager has opened for this process, if any. The variables that name them are gone then, so that
/// no program that the box starts takes them for its own. To be called once, while the process has one thread.
pub fn sockets() -> Result<Option<Vec<Inherited>>> {
    // Without the process that is meant they may be anybody's, as those of a shell that was itself started so.
    if env::var_os("LISTEN_FDS").is_none() || env::var_os("LISTEN_PID").is_none() {
        return Ok(None);
    }
    let mut given = ListenFd::from_env();
    let mut sockets = Vec::new();
    for at in 0..given.len() {
        let tcp = given.take_tcp_listener(at).ok().flatten().map(Inherited::Tcp);
        let socket = match tcp {
            Some(socket) => Some(socket),
            None => given.take_unix_listener(at).ok().flatten().map(Inherited::Unix),
        };
        sockets.push(socket.ok_or_else(|| {
            let which = at + 1;
            let reason = format!(
                "the service manager's socket number {which} is neither a stream of TCP nor of Unix (ListenStream=)"
            );
            Error::invalid("LISTEN_FDS", reason)
        })?);
    }
    Ok(Some(sockets).filter(|sockets| !sockets.is_empty()))
}

fn open(place: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let to = match place.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(place)?,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a path nor an abstract name")),
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, to))
}
