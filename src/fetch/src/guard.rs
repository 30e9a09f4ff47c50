//! Which addresses the box may connect to on a customer's behalf.
//!
//! A scraper fetches whatever URL it is given, so without a guard every customer could read the box's own network:
//! the cloud's metadata service, the database next door, the box itself (server-side request forgery). The rule is
//! applied to the **address that is connected to**, after DNS and again at every redirect, because a name proves
//! nothing.
//!
//! An address is judged in this order, and the first answer stands:
//! 1. `::ffff:a.b.c.d` is the same wire as `a.b.c.d`, and is judged as that;
//! 2. *never*: cloud metadata services, the unspecified address, multicast, broadcast, and the box's own listeners;
//!    no rule opens these, in whatever notation they come;
//! 3. *opened*: an entry of `network.allow` that holds the address and the port;
//! 4. *denied by default*: everything the IANA special-purpose registries do not call globally reachable
//!    (RFC 6890 and successors), and IPv6 outside 2000::/3;
//! 5. an IPv6 address that carries an IPv4 one (NAT64 `64:ff9b::/96`, 6to4 `2002::/16`, the deprecated `::/96`)
//!    is judged by what it carries as well.

mod allow;

pub use allow::AllowRule;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base::web::WebUrl;
use ipnet::{Ipv4Net, Ipv6Net};

/// IPv4 networks that are closed unless `network.allow` opens them.
const DENIED_V4: &[(Ipv4Net, &str)] = &[
    (v4([0, 0, 0, 0], 8), "this network"),
    (v4([10, 0, 0, 0], 8), "private"),
    (v4([100, 64, 0, 0], 10), "shared by carriers"),
    (v4([127, 0, 0, 0], 8), "loopback"),
    (v4([169, 254, 0, 0], 16), "link-local"),
    (v4([172, 16, 0, 0], 12), "private"),
    (v4([192, 0, 0, 0], 24), "reserved"),
    (v4([192, 0, 2, 0], 24), "documentation"),
    (v4([192, 88, 99, 0], 24), "reserved"),
    (v4([192, 168, 0, 0], 16), "private"),
    (v4([198, 18, 0, 0], 15), "benchmarking"),
    (v4([198, 51, 100, 0], 24), "documentation"),
    (v4([203, 0, 113, 0], 24), "documentation"),
    (v4([240, 0, 0, 0], 4), "reserved"),
];

/// IPv6 networks that are closed unless opened. What lies outside 2000::/3 and is not named here is "reserved".
const DENIED_V6: &[(Ipv6Net, &str)] = &[
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "loopback"),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 96), "reserved"),
    (v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96), "reserved"),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), "local translation"),
    (v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64), "discarded"),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), "reserved"),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), "documentation"),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "documentation"),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), "private"),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "link-local"),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), "private"),
];

/// NAT64's well-known prefix (RFC 6052): public IPv4 seen through a translator, so only its content is judged.
const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);
/// Global unicast, the only part of IPv6 that the public web lives in (RFC 4291).
const GLOBAL_UNICAST: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// The addresses at which clouds hand out a machine's credentials, from the vendors' own manuals: AWS (instances,
/// containers, pods), Azure (also its host agent), Google, Oracle, Alibaba, OpenStack.
const METADATA_V4: &[Ipv4Addr] = &[
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
    Ipv4Addr::new(100, 100, 100, 200),
];
const METADATA_V6: &[Ipv6Addr] = &[
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe),
    Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe),
];

const fn v4(octets: [u8; 4], prefix_bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]), prefix_bits)
}

const fn v6(s: [u16; 8], prefix_bits: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]), prefix_bits)
}

/// A connection that was not made. `Display` is safe to show to a customer who wrote the address themselves; for a
/// name, show [`Refused::kind`] only, so that the box does not answer questions about the network's inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    addr: IpAddr,
    kind: &'static str,
    openable: bool,
}

impl Refused {
    /// What sort of address it is, in a word or two: "loopback", "private", "cloud metadata" ...
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Whether an entry of `network.allow` could open it.
    pub fn is_openable(&self) -> bool {
        self.openable
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { addr, kind, openable } = self;
        let verdict = if *openable { "is not allowed by network.allow" } else { "is never allowed" };
        write!(f, "the address {addr} ({kind}) {verdict}")
    }
}

impl std::error::Error for Refused {}

/// Decides about every connection made for a customer. Immutable, cheap to share.
#[derive(Debug, Clone, Default)]
pub struct AddressGuard {
    allow: Box<[AllowRule]>,
    own: Box<[SocketAddr]>,
    /// Names that the configuration answers, whatever they mean elsewhere.
    answered: Box<[Box<str>]>,
}

impl AddressGuard {
    /// `allow` is `network.allow`; `own` are the addresses the box itself listens at, an unspecified one
    /// (`0.0.0.0:8080`) standing for that port on every interface.
    pub fn new(allow: &[AllowRule], own: &[SocketAddr]) -> Self {
        let own = own.iter().map(|addr| SocketAddr::new(canonical(addr.ip()), addr.port())).collect();
        Self { allow: allow.into(), own, answered: Box::default() }
    }

    /// The same on a box where `network.hosts` answers these names.
    #[must_use]
    pub fn answering<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.answered = names.into_iter().map(|name| bare(&name.to_ascii_lowercase()).into()).collect();
        self
    }

    /// Judges an address before a connection is made to it.
    pub fn check(&self, addr: SocketAddr) -> Result<(), Refused> {
        let ip = canonical(addr.ip());
        let addr = SocketAddr::new(ip, addr.port());
        let carried = carried_v4(ip);
        let refuse = |kind, openable| Err(Refused { addr: ip, kind, openable });

        let never = never_kind(ip).or_else(|| carried.and_then(|v4| never_kind(IpAddr::V4(v4))));
        if let Some(kind) = never {
            return refuse(kind, false);
        }
        if self.is_own(addr) || carried.is_some_and(|v4| self.is_own(SocketAddr::new(v4.into(), addr.port())))
        {
            return refuse("the appliance itself", false);
        }
        if self.allow.iter().any(|rule| rule.opens(addr)) {
            return Ok(());
        }
        match denied_kind(ip).or_else(|| carried.and_then(|v4| denied_kind(IpAddr::V4(v4)))) {
            Some(kind) => refuse(kind, true),
            None => Ok(()),
        }
    }

    /// Whether it is an address of the public internet, which no rule needs to open.
    pub fn is_public(ip: IpAddr) -> bool {
        let ip = canonical(ip);
        let closed = |ip| never_kind(ip).or(denied_kind(ip)).is_some();
        !closed(ip) && !carried_v4(ip).is_some_and(|v4| closed(IpAddr::V4(v4)))
    }

    /// Judges what a URL's text tells: an address that is written in it, or a name that means the same one everywhere. Any
    /// other name is judged when it is connected to.
    pub fn check_literal(&self, url: &WebUrl) -> Result<(), Refused> {
        let check = |ip| self.check(SocketAddr::new(ip, url.port()));
        match url.host_kind() {
            url::Host::Ipv4(ip) => check(IpAddr::V4(ip)),
            url::Host::Ipv6(ip) => check(IpAddr::V6(ip)),
            url::Host::Domain(name) => {
                let name = bare(name);
                if self.answered.iter().any(|answered| **answered == *name) {
                    return Ok(());
                }
                // One of them that may be connected to will do.
                let verdicts = well_known(name).iter().map(|ip| check(*ip));
                verdicts.reduce(|one, other| if one.is_ok() { one } else { other.or(one) }).unwrap_or(Ok(()))
            }
        }
    }

    /// Judges a connection once it is made and before a byte is sent. A listener on an unspecified address answers at
    /// every interface, and the box does not know its interfaces' addresses; but a connection to one of them comes
    /// from that same address, which tells.
    pub fn check_connected(&self, local: SocketAddr, peer: SocketAddr) -> Result<(), Refused> {
        let (local_ip, peer_ip) = (canonical(local.ip()), canonical(peer.ip()));
        let listens = self.own.iter().any(|own| own.ip().is_unspecified() && own.port() == peer.port());
        if listens && local_ip == peer_ip {
            return Err(Refused { addr: peer_ip, kind: "the appliance itself", openable: false });
        }
        Ok(())
    }

    fn is_own(&self, addr: SocketAddr) -> bool {
        self.own.iter().any(|own| {
            let same_place = own.ip() == addr.ip() || (own.ip().is_unspecified() && addr.ip().is_loopback());
            own.port() == addr.port() && same_place
        })
    }
}

/// A name without the dot that says that it is complete.
fn bare(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

/// The addresses of names that mean the same everywhere, in lower case: this very machine (RFC 6761, section 6.3, and what
/// systems write into their hosts files), and Google's metadata service, which has no other way to be asked for by name.
fn well_known(name: &str) -> &'static [IpAddr] {
    const LOOPBACK: &[IpAddr] = &[IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    const METADATA: &[IpAddr] = &[IpAddr::V4(METADATA_V4[0])];
    match name {
        "localhost" | "localhost.localdomain" | "ip6-localhost" | "ip6-loopback" => LOOPBACK,
        "metadata.google.internal" => METADATA,
        _ if name.ends_with(".localhost") => LOOPBACK,
        _ => &[],
    }
}

/// The address as the wire sees it: an IPv4-mapped IPv6 address is the IPv4 address.
fn canonical(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

/// The IPv4 address that an IPv6 transition address delivers to, if it is one.
fn carried_v4(ip: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(ip) = ip else { return None };
    let segments = ip.segments();
    let join = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match segments {
        // NAT64 (RFC 6052), IPv4-compatible (RFC 4291), IPv4-translated (RFC 2765): in the last 32 bits. The local-use
        // NAT64 prefix (RFC 8215) is operated with /96 in practice.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x64, 0xff9b, 1, _, _, _, high, low]
        | [0, 0, 0, 0, 0, 0, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low] => join(high, low),
        // 6to4 (RFC 3056): after the prefix.
        [0x2002, high, low, ..] => join(high, low),
        _ => None,
    }
}

/// Why no rule may open this address, if so.
fn never_kind(ip: IpAddr) -> Option<&'static str> {
    if ip.is_unspecified() {
        return Some("unspecified");
    }
    if ip.is_multicast() {
        return Some("multicast");
    }
    match ip {
        IpAddr::V4(v4) if v4.is_broadcast() => Some("broadcast"),
        IpAddr::V4(v4) if METADATA_V4.contains(&v4) => Some("cloud metadata"),
        IpAddr::V6(v6) if METADATA_V6.contains(&v6) => Some("cloud metadata"),
        _ => None,
    }
}

/// Why this address is closed by default, if so.
fn denied_kind(ip: IpAddr) -> Option<&'static str> {
    match ip {
        IpAddr::V4(ip) => DENIED_V4.iter().find(|(net, _)| net.contains(&ip)).map(|(_, kind)| *kind),
        IpAddr::V6(ip) => {
            let named = DENIED_V6.iter().find(|(net, _)| net.contains(&ip)).map(|(_, kind)| *kind);
            let public = GLOBAL_UNICAST.contains(&ip) || NAT64.contains(&ip);
            named.or(if public { None } else { Some("reserved") })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(allow: &[&str], own: &[&str]) -> AddressGuard {
        let allow: Vec<AllowRule> = allow.iter().map(|rule| rule.parse().unwrap()).collect();
        let own: Vec<SocketAddr> = own.iter().map(|addr| addr.parse().unwrap()).collect();
        AddressGuard::new(&allow, &own)
    }

    fn check(guard: &AddressGuard, ip: &str, port: u16) -> Result<(), Refused> {
        guard.check(SocketAddr::new(ip.parse().unwrap(), port))
    }

    /// The IPv4 addresses that are closed, beside the word the guard has for each.
    const CLOSED_V4: &[(&str, &str)] = &[
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "this network"),
        ("10.0.0.1", "private"),
        ("100.64.0.1", "shared by carriers"),
        ("100.127.255.255", "shared by carriers"),
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("169.254.0.1", "link-local"),
        ("169.254.169.254", "cloud metadata"),
        ("169.254.170.2", "cloud metadata"),
        ("168.63.129.16", "cloud metadata"),
        ("100.100.100.200", "cloud metadata"),
        ("192.0.0.192", "cloud metadata"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.0.0.1", "reserved"),
        ("192.0.2.1", "documentation"),
        ("192.88.99.1", "reserved"),
        ("192.168.1.1", "private"),
        ("198.18.0.1", "benchmarking"),
        ("198.19.255.255", "benchmarking"),
        ("198.51.100.1", "documentation"),
        ("203.0.113.1", "documentation"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.250", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "broadcast"),
    ];

    #[test]
    fn closes_ipv4_in_every_notation() {
        let guard = AddressGuard::default();
        for (text, kind) in CLOSED_V4 {
            let ip: Ipv4Addr = text.parse().unwrap();
            let [a, b, c, d] = ip.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            for ip in [
                IpAddr::V4(ip),
                IpAddr::V6(ip.to_ipv6_mapped()),
                IpAddr::V6(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low)),
                IpAddr::V6(Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1)),
            ] {
                let refused = guard.check(SocketAddr::new(ip, 80)).expect_err(&ip.to_string());
                assert_eq!(refused.kind(), *kind, "{ip}");
            }
            for ip in [
                Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, high, low),
                Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
            ] {
                assert!(guard.check(SocketAddr::new(ip.into(), 80)).is_err(), "{ip}");
            }
        }
    }

    #[test]
    fn names_that_mean_this_machine_are_refused_like_its_addresses() {
        let literal = |guard: &AddressGuard, url: &str| guard.check_literal(&WebUrl::parse(url).unwrap());
        let closed = guard(&[], &[]);
        for url in [
            "http://localhost/x",
            "http://LOCALHOST.:8080/",
            "http://a.b.localhost/",
            "http://ip6-localhost/",
        ] {
            assert_eq!(literal(&closed, url).unwrap_err().kind(), "loopback", "{url}");
        }
        assert_eq!(
            literal(&closed, "http://metadata.google.internal/").unwrap_err().kind(),
            "cloud metadata"
        );
        for url in ["http://localhost.example/", "http://notlocalhost/", "https://example.com/"] {
            assert!(literal(&closed, url).is_ok(), "{url}");
        }
        let opened = guard(&["127.0.0.1:8000", "[::1]/128:8001"], &[]);
        assert!(
            literal(&opened, "http://localhost:8000/").is_ok()
                && literal(&opened, "http://localhost:8001/").is_ok()
        );
        assert!(literal(&opened, "http://localhost:8002/").is_err());
        let answered = closed.answering(["Localhost."]);
        assert!(
            literal(&answered, "http://localhost/").is_ok()
                && literal(&answered, "http://a.localhost/").is_err()
        );
    }

    #[test]
    fn closes_ipv6() {
        let guard = AddressGuard::default();
        for (text, kind) in [
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("::808:808", "reserved"),
            ("64:ff9b:1::808:808", "local translation"),
            ("100::1", "discarded"),
            ("2001::1", "reserved"),
            ("2001:20::1", "reserved"),
            ("2001:db8::1", "documentation"),
            ("3fff::1", "documentation"),
            ("5f00::1", "reserved"),
            ("fc00::1", "private"),
            ("fd00:ec2::254", "cloud metadata"),
            ("fd00:ec2::23", "cloud metadata"),
            ("fd20:ce::254", "cloud metadata"),
            ("fe80::a9fe:a9fe", "cloud metadata"),
            ("fe80::1", "link-local"),
            ("fec0::1", "private"),
            ("ff02::1", "multicast"),
            ("8000::1", "reserved"),
        ] {
            assert_eq!(check(&guard, text, 443).expect_err(text).kind(), kind, "{text}");
        }
    }

    #[test]
    fn lets_the_public_web_through() {
        let guard = AddressGuard::default();
        for text in [
            "8.8.8.8",
            "1.1.1.1",
            "93.184.215.14",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.255.255",
            "198.20.0.1",
            "223.255.255.255",
            "11.0.0.1",
            "2606:4700:4700::1111",
            "2a00:1450:4001:800::200e",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert_eq!(check(&guard, text, 443), Ok(()), "{text}");
            assert!(AddressGuard::is_public(text.parse().unwrap()), "{text}");
        }
        for text in ["127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "169.254.169.254", "fd00::1"] {
            assert!(!AddressGuard::is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn opens_exactly_what_is_allowed() {
        let guard = guard(&["127.0.0.1/32:8080", "10.0.0.0/8", "[::1]/128:80", "fd12::/16"], &[]);
        for (ip, port, open) in [
            ("127.0.0.1", 8080, true),
            ("::ffff:127.0.0.1", 8080, true),
            ("127.0.0.1", 8081, false),
            ("127.0.0.2", 8080, false),
            ("10.200.3.4", 5432, true),
            ("11.0.0.1", 5432, true),
            ("192.168.0.1", 80, false),
            ("::1", 80, true),
            ("::1", 81, false),
            ("fd12::5", 9999, true),
            ("fd13::5", 9999, false),
            // A rule for the IPv4 network says nothing about a tunnel that ends there.
            ("2002:a00:1::1", 80, false),
        ] {
            assert_eq!(check(&guard, ip, port).is_ok(), open, "{ip} {port}");
        }
    }

    #[test]
    fn never_opens_metadata_and_its_kin() {
        let guard = guard(&["0.0.0.0/0", "::/0"], &[]);
        for ip in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "::a9fe:a9fe",
            "fd00:ec2::254",
            "168.63.129.16",
            "100.100.100.200",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
        ] {
            let refused = check(&guard, ip, 80).expect_err(ip);
            assert!(!refused.is_openable(), "{ip}");
        }
        assert_eq!(check(&guard, "127.0.0.1", 80), Ok(()));
        assert_eq!(check(&guard, "169.254.1.1", 80), Ok(()));
    }

    #[test]
    fn never_opens_the_box_itself() {
        let everything = guard(&["0.0.0.0/0", "::/0"], &["0.0.0.0:8080", "127.0.0.1:9000", "[::1]:9001"]);
        for (ip, port, open) in [
            ("127.0.0.1", 8080, false),
            ("127.9.9.9", 8080, false),
            ("::1", 8080, false),
            ("::ffff:127.0.0.1", 8080, false),
            ("127.0.0.1", 9000, false),
            ("64:ff9b::7f00:1", 9000, false),
            ("127.0.0.2", 9000, true),
            ("::1", 9001, false),
            ("127.0.0.1", 9002, true),
        ] {
            assert_eq!(check(&everything, ip, port).is_ok(), open, "{ip} {port}");
        }
        let addr = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert!(everything.check_connected(addr("10.1.2.3:51000"), addr("10.1.2.3:8080")).is_err());
        assert!(everything.check_connected(addr("[::ffff:10.1.2.3]:51000"), addr("10.1.2.3:8080")).is_err());
        assert!(everything.check_connected(addr("10.1.2.3:51000"), addr("10.1.2.4:8080")).is_ok());
        assert!(everything.check_connected(addr("10.1.2.3:51000"), addr("10.1.2.3:8081")).is_ok());
    }

    #[test]
    fn parses_and_prints_rules() {
        for (text, printed) in [
            ("127.0.0.1/32:8080", "127.0.0.1/32:8080"),
            ("127.0.0.1:8080", "127.0.0.1/32:8080"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("192.168.0.1", "192.168.0.1/32"),
            ("[::1]/128:80", "[::1]/128:80"),
            ("[::1]:80", "[::1]/128:80"),
            ("[fd00::]/8", "fd00::/8"),
            ("fd00::/8", "fd00::/8"),
            ("::1", "::1/128"),
        ] {
            let rule: AllowRule = text.parse().unwrap();
            assert_eq!(rule.to_string(), printed);
            assert_eq!(printed.parse::<AllowRule>().unwrap(), rule);
        }
        for text in [
            "",
            "example.com",
            "10.0.0.0/33",
            "10.0.0.0/8:0",
            "10.0.0.0/8:99999",
            "10.0.0.0/",
            "[::1",
            "[::1]/129",
            "[::1]x:80",
            "10.0.0.0/8/8",
            "[::1/128]/128:80",
            "127.0.0.1:http",
        ] {
            assert!(text.parse::<AllowRule>().is_err(), "{text}");
        }
        let error = serde_json::from_str::<AllowRule>("\"here\"").unwrap_err().to_string();
        assert!(error.contains("such as 10.0.0.0/8"), "{error}");
    }

    #[test]
    fn says_it_in_plain_words() {
        let guard = AddressGuard::default();
        let say = |ip| check(&guard, ip, 80).unwrap_err().to_string();
        assert_eq!(say("127.0.0.1"), "the address 127.0.0.1 (loopback) is not allowed by network.allow");
        assert_eq!(say("169.254.169.254"), "the address 169.254.169.254 (cloud metadata) is never allowed");
    }
}
