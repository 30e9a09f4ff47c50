//! Whose request it is when a proxy stands in front.
//!
//! `X-Forwarded-For` is anybody's to write, so it is believed only as far as the chain of trusted proxies reaches: from
//! the right, the first address that is not a trusted proxy is the caller.

use http::HeaderMap;
use ipnet::IpNet;
use std::net::IpAddr;

/// The caller's address, of a request that the trusted proxy at `peer` passes on.
pub(crate) fn client_ip(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let peer = peer.to_canonical();
    let is_trusted = |ip: IpAddr| trusted.iter().any(|network| network.contains(&ip));
    let lines: Vec<_> =
        headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok()).collect();
    let mut caller = peer;
    for text in lines.iter().flat_map(|line| line.split(',')).rev() {
        // What stands left of something unreadable was vouched for by nobody.
        let Some(ip) = parse(text.trim()) else { break };
        caller = ip;
        if !is_trusted(ip) {
            break;
        }
    }
    caller
}

/// An address, perhaps in brackets or with a port, as proxies write them.
fn parse(text: &str) -> Option<IpAddr> {
    let plain = text.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(text, |(inner, _)| inner);
    let ip = plain.parse().or_else(|_| text.parse::<std::net::SocketAddr>().map(|address| address.ip()));
    ip.ok().map(|ip: IpAddr| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(peer: &str, forwarded: &[&str]) -> String {
        let trusted = ["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append("x-forwarded-for", line.parse().unwrap());
        }
        client_ip(peer.parse().unwrap(), &headers, &trusted).to_string()
    }

    #[test]
    fn only_a_trusted_chain_is_believed() {
        assert_eq!(seen("10.0.0.1", &["198.51.100.1"]), "198.51.100.1");
        assert_eq!(seen("10.0.0.1", &["6.6.6.6, 198.51.100.1, 10.0.0.2"]), "198.51.100.1");
        assert_eq!(seen("10.0.0.1", &["6.6.6.6", "198.51.100.1:4711"]), "198.51.100.1");
        assert_eq!(seen("10.0.0.1", &["6.6.6.6, nonsense"]), "10.0.0.1");
        assert_eq!(seen("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(seen("::1", &["[2001:db8::7]:443"]), "2001:db8::7");
        assert_eq!(seen("::ffff:10.0.0.1", &["198.51.100.1"]), "198.51.100.1");
    }
}
