//! The address of a client, by which attempts are counted.

use std::net::IpAddr;

/// Returns the key under which the attempts of a client address are counted. The key of an IPv4 address is the address. The key of an
/// IPv6 address is its /64 network, because one client has all addresses of such a network. All clients without a valid address have one
/// key, because a client of a local hub can send any text.
pub fn rate_limit_key(address: &str) -> String {
    match address.parse().map(|address: IpAddr| address.to_canonical()) {
        Ok(IpAddr::V6(ip)) => {
            let [a, b, c, d, ..] = ip.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
        Ok(IpAddr::V4(ip)) => ip.to_string(),
        Err(_) => String::new(),
    }
}
