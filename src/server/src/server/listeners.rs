//! Listening sockets: of TCP, of Unix, and those that a service manager holds open for the box.

use super::BindError;
use crate::settings::ListenAddress;
use rustix::net::sockopt::set_ipv6_v6only;
use std::fs::{self, Permissions};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

/// Connections that wait in the kernel to be accepted; it takes as many as `net.core.somaxconn` allows.
const BACKLOG: u32 = 4096;

/// Sockets that are open and not yet served: who needs to know the port before there is an [`Api`](crate::Api) listens first.
pub struct Listeners(Vec<Listener>);

/// A socket that somebody else has opened and listens at.
#[derive(Debug)]
pub enum Inherited {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, Place),
}

/// A connection that was accepted.
pub(super) enum Accepted {
    Tcp(TcpStream, SocketAddr),
    /// From a program on this machine that may open the socket's file.
    Unix(UnixStream),
}

/// Where a Unix socket is.
pub(super) struct Place {
    /// None of one that has no name.
    path: Option<PathBuf>,
    /// Device and inode of the file, where this process has made it and removes it.
    made: Option<(u64, u64)>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((path, made)) = self.path.as_ref().zip(self.made) else { return };
        // Another box may have begun to listen there meanwhile.
        if fs::symlink_metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == made) {
            let _ = fs::remove_file(path);
        }
    }
}

impl Listeners {
    /// Opens the sockets; connections wait in the kernel until [`Server::on`](super::Server::on) serves them. Unix sockets get
    /// the mode `mode`.
    pub async fn open(addresses: &[ListenAddress], mode: u32) -> Result<Listeners, BindError> {
        let mut listeners = Vec::new();
        for address in addresses {
            let failed = |e| BindError { what: format!("cannot listen on {address}"), cause: Box::new(e) };
            listeners.push(match address {
                ListenAddress::Tcp(address) => Listener::Tcp(tcp(*address, addresses).map_err(failed)?),
                ListenAddress::Unix(path) => unix(path, mode).map_err(failed)?,
            });
        }
        Ok(Listeners(listeners))
    }

    /// Takes sockets that are open already, as those of a service manager.
    pub fn inherited(sockets: Vec<Inherited>) -> Result<Listeners, BindError> {
        let failed = |e| BindError { what: "cannot take over a socket".to_owned(), cause: Box::new(e) };
        sockets.into_iter().map(inherited).collect::<io::Result<_>>().map(Listeners).map_err(failed)
    }

    /// Where the sockets are, in their order, with the ports that the system chose. A Unix socket without a name is left out.
    pub fn addresses(&self) -> io::Result<Vec<ListenAddress>> {
        let mut addresses = Vec::new();
        for listener in &self.0 {
            match listener {
                Listener::Tcp(listener) => addresses.push(ListenAddress::Tcp(listener.local_addr()?)),
                Listener::Unix(_, place) => addresses.extend(place.path.clone().map(ListenAddress::Unix)),
            }
        }
        Ok(addresses)
    }

    pub(super) fn into_all(self) -> Vec<Listener> {
        self.0
    }
}

impl Listener {
    pub(super) async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok(Accepted::Tcp(stream, peer))
            }
            Listener::Unix(listener, _) => Ok(Accepted::Unix(listener.accept().await?.0)),
        }
    }
}

impl Accepted {
    /// Where it is from; this machine, of a Unix socket.
    pub(super) fn ip(&self) -> IpAddr {
        match self {
            Accepted::Tcp(_, peer) => peer.ip(),
            Accepted::Unix(_) => Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// Whether it is of a Unix socket.
    pub(super) fn is_local(&self) -> bool {
        matches!(self, Accepted::Unix(_))
    }
}

fn inherited(socket: Inherited) -> io::Result<Listener> {
    match socket {
        Inherited::Tcp(socket) => {
            socket.set_nonblocking(true)?;
            Ok(Listener::Tcp(TcpListener::from_std(socket)?))
        }
        Inherited::Unix(socket) => {
            socket.set_nonblocking(true)?;
            let path = socket.local_addr()?.as_pathname().map(Path::to_owned);
            // Who has made the file removes it.
            Ok(Listener::Unix(UnixListener::from_std(socket)?, Place { path, made: None }))
        }
    }
}

/// A socket that listens. A burst of connections beyond the system's usual 128 would have each further one wait a second for
/// its client to try again.
fn tcp(address: SocketAddr, all: &[ListenAddress]) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As with `TcpListener::bind`: a port whose connections of before still linger can be had.
    socket.set_reuseaddr(true)?;
    // `[::]` takes IPv4's connections too, unless they have a socket of their own.
    let shares = |other: &ListenAddress| match other {
        ListenAddress::Tcp(other) => other.is_ipv4() && other.port() == address.port(),
        ListenAddress::Unix(_) => false,
    };
    if address.ip() == Ipv6Addr::UNSPECIFIED && address.port() != 0 && all.iter().any(shares) {
        set_ipv6_v6only(&socket, true)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A Unix socket that listens, in the place of one that a dead process has left.
fn unix(path: &Path, mode: u32) -> io::Result<Listener> {
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_over(path) => {
            fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    let about = fs::symlink_metadata(path)?;
    let place = Place { path: Some(path.to_owned()), made: Some((about.dev(), about.ino())) };
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    Ok(Listener::Unix(listener, place))
}

/// Whether there is a socket at which nobody listens any more.
fn is_left_over(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|about| about.file_type().is_socket());
    let refused = |error: io::Error| matches!(error.kind(), io::ErrorKind::ConnectionRefused);
    is_socket && StdUnixStream::connect(path).is_err_and(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn open(addresses: &[ListenAddress]) -> Result<Listeners, BindError> {
        Listeners::open(addresses, 0o660).await
    }

    #[tokio::test]
    async fn a_unix_socket_has_its_mode_and_goes_with_its_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("http.sock");
        let at = [ListenAddress::Unix(path.clone())];
        let listeners = open(&at).await.unwrap();
        assert_eq!(listeners.addresses().unwrap(), at);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        let error = open(&at).await.err().expect("somebody listens there").to_string();
        assert!(error.contains("http.sock"), "{error}");
        drop(listeners);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_dead_processs_socket_is_replaced_and_another_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("http.sock");
        let at = [ListenAddress::Unix(path.clone())];
        // Its file stays, as after a kill.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let first = open(&at).await.unwrap();
        // Another one in its place is not this one's to remove.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "something").unwrap();
        drop(first);
        assert!(open(&at).await.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "something");
    }

    #[tokio::test]
    async fn both_families_have_one_port() {
        let probe = TcpListener::bind(("0.0.0.0", 0)).await.unwrap();
        let port = probe.local_addr().unwrap().port();
        drop(probe);
        let v4 = ListenAddress::Tcp((Ipv4Addr::UNSPECIFIED, port).into());
        let v6 = ListenAddress::Tcp((Ipv6Addr::UNSPECIFIED, port).into());
        match open(&[v4.clone(), v6.clone()]).await {
            Ok(listeners) => assert_eq!(listeners.addresses().unwrap(), [v4, v6]),
            // A machine without IPv6, or whose port somebody has taken meanwhile.
            Err(error) => println!("skipped: {error}"),
        }
    }
}
