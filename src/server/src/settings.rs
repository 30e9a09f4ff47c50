//! What this crate is told by the configuration.

use ipnet::IpNet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// What the trunk is told by the configuration.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    /// Where error pages are, such as `http://box:8080/docs`, without a slash at the end.
    pub docs_base: String,
    /// The path under which people reach the box, as in `/gleaner`; empty where it has a host of its own. Requests come
    /// with it or without: some proxies strip it.
    pub prefix: String,
    /// Where a browser is led from the box's address, as in `/start`; none shows it the list of pages there.
    pub start: Option<&'static str>,
    /// Whether people get the messages that the box writes to them.
    pub sends_mail: bool,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Bytes of bodies that callers with a credential may have under way together.
    pub bodies_bytes_max: usize,
    /// Networks from which `/metrics` is shown.
    pub metrics_from: Vec<IpNet>,
    /// The token with which it is shown to anybody.
    pub metrics_token: Option<String>,
}

impl Default for ApiSettings {
    fn default() -> Self {
        ApiSettings {
            docs_base: "/docs".to_owned(),
            prefix: String::new(),
            start: None,
            sends_mail: true,
            trusted_proxies: Vec::new(),
            bodies_bytes_max: 128 << 20,
            metrics_from: vec![
                IpNet::new_assert(Ipv4Addr::LOCALHOST.into(), 8),
                IpNet::new_assert(Ipv6Addr::LOCALHOST.into(), 128),
            ],
            metrics_token: None,
        }
    }
}

impl ApiSettings {
    /// Whether connections from there are a trusted proxy's.
    pub(crate) fn trusts(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.trusted_proxies.iter().any(|network| network.contains(&ip))
    }
}

/// What the accept loop is told by the configuration.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Where to listen; port 0 lets the system choose.
    pub listen: Vec<ListenAddress>,
    /// The mode of Unix sockets: who may connect, and is believed as a trusted proxy is.
    pub socket_mode: u32,
    /// Files for TLS; without them the sockets of TCP speak in the clear, as those of Unix always do.
    pub tls: Option<TlsSettings>,
    pub connections_max: usize,
    /// Connections of one address on which nobody has shown a credential; trusted proxies are not counted.
    pub per_address_max: usize,
    /// How long a new connection may take until its first request stands there, TLS handshake included.
    pub head_time_max: Duration,
    /// How long a connection may do nothing between requests.
    pub idle_max: Duration,
    /// How long requests in flight may take once the server drains.
    pub drain_max: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        ServerSettings {
            listen: vec![ListenAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 8080)))],
            socket_mode: 0o660,
            tls: None,
            connections_max: 4_096,
            per_address_max: 512,
            head_time_max: Duration::from_secs(10),
            idle_max: Duration::from_secs(75),
            drain_max: Duration::from_secs(30),
        }
    }
}

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    Tcp(SocketAddr),
    /// The file of a Unix socket, for a proxy on this machine.
    Unix(PathBuf),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => write!(f, "{address}"),
            ListenAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// PEM files: the certificate chain and its private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    pub cert: PathBuf,
    pub key: PathBuf,
}
