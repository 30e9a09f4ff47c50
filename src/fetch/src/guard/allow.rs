//! The entries of `network.allow`: networks, with a port or without, that the operator opens.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// One entry of `network.allow`: a network and, when written, the only port it opens. Forms: `10.0.0.0/8`,
/// `127.0.0.1/32:8080`, `127.0.0.1:8080`, `fd12::/16`, `[::1]/128:80`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AllowRule {
    net: IpNet,
    port: Option<u16>,
}

impl AllowRule {
    /// Whether the address is one of these.
    pub fn opens(&self, addr: SocketAddr) -> bool {
        self.net.contains(&addr.ip()) && self.port.is_none_or(|port| port == addr.port())
    }
}

/// A text that is not an [`AllowRule`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadAllowRule(String);

impl fmt::Display for BadAllowRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a network with an optional port, such as 10.0.0.0/8 or [::1]/128:8080", self.0)
    }
}

impl std::error::Error for BadAllowRule {}

impl FromStr for AllowRule {
    type Err = BadAllowRule;

    fn from_str(text: &str) -> Result<Self, BadAllowRule> {
        let bad = || BadAllowRule(text.to_owned());
        let text_trimmed = text.trim();
        // An IPv6 network needs brackets to carry a port, because both use colons.
        let (address, rest) = match text_trimmed.strip_prefix('[') {
            Some(inner) => inner.split_once(']').ok_or_else(bad)?,
            None if text_trimmed.matches(':').count() > 1 => (text_trimmed, ""),
            None => match text_trimmed.find([':', '/']) {
                Some(at) => text_trimmed.split_at(at),
                None => (text_trimmed, ""),
            },
        };
        let (address, prefix_bits) = match address.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (address, None),
        };
        let (rest, port) = match rest.split_once(':') {
            Some((rest, port)) => (rest, Some(port)),
            None => (rest, None),
        };
        let prefix_bits = match (prefix_bits, rest.strip_prefix('/')) {
            (Some(bits), None) | (None, Some(bits)) => Some(bits),
            (None, None) if rest.is_empty() => None,
            _ => return Err(bad()),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let net = match prefix_bits {
            None => IpNet::from(address),
            Some(bits) => IpNet::new(address, bits.parse().map_err(|_| bad())?).map_err(|_| bad())?,
        };
        let port = match port.map(str::parse::<u16>) {
            None => None,
            Some(Ok(port)) if port != 0 => Some(port),
            Some(_) => return Err(bad()),
        };
        Ok(Self { net: net.trunc(), port })
    }
}

impl fmt::Display for AllowRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.net, self.port) {
            (net, None) => write!(f, "{net}"),
            (IpNet::V4(net), Some(port)) => write!(f, "{net}:{port}"),
            (IpNet::V6(net), Some(port)) => write!(f, "[{}]/{}:{port}", net.addr(), net.prefix_len()),
        }
    }
}

impl Serialize for AllowRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AllowRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
