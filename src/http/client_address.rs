//! The address of a client, by which attempts are counted.

use std::net::Ipv6Addr;

/// Returns the key under which the attempts of a client address are counted: an IPv4 address itself; of an IPv6 address the /64
/// network, because one client has all addresses of such a network.
pub fn rate_limit_key(address: &str) -> String {
    match address.parse::<Ipv6Addr>() {
        Ok(ip) if ip.to_ipv4_mapped().is_none() => {
            let [a, b, c, d, ..] = ip.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
        _ => address.to_owned(),
    }
}
