//! Networks that addresses are counted by.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What one customer of a provider has of IPv6.
const V6_BITS: u32 = 64;

/// The network that an address counts for: its first `v4_bits` of IPv4, at most 32, or its /64 of IPv6, whose holder has all
/// of its addresses. An IPv4 address in the form of IPv6 is one of IPv4.
pub fn network_of(ip: IpAddr, v4_bits: u32) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(v4_bits)).unwrap_or(0);
            Ipv4Addr::from_bits(ip.to_bits() & mask).into()
        }
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << (128 - V6_BITS))).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bits_of_an_address_are_its_network() {
        for (ip, v4_bits, network) in [
            ("192.0.2.77", 32, "192.0.2.77"),
            ("192.0.2.77", 24, "192.0.2.0"),
            ("192.0.2.77", 0, "0.0.0.0"),
            ("::ffff:192.0.2.77", 24, "192.0.2.0"),
            ("2001:db8:1:2:3:4:5:6", 24, "2001:db8:1:2::"),
            ("2001:db8:1:2:3:4:5:6", 32, "2001:db8:1:2::"),
        ] {
            assert_eq!(network_of(ip.parse().unwrap(), v4_bits).to_string(), network, "{ip}/{v4_bits}");
        }
    }
}
