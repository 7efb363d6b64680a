//! Which addresses the hub calls when a client tells it to. An endpoint is a URL that somebody with a token wrote: it must
//! not lead to anything that only the hub can reach.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{from_base64url, to_base64url};

/// The longest endpoint, in bytes.
pub const MAX_ENDPOINT: usize = 2_048;

/// The longest domain name, in bytes (RFC 1035 section 2.3.4).
const MAX_HOST: usize = 253;

/// Last labels of names that mean something on a private network only (RFC 6761, 6762, 7686, 8375, 9476, and common use;
/// `svc` and `cluster` are those of services in a cluster, which its resolver completes).
const PRIVATE: [&str; 17] = [
    "localhost",
    "local",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "arpa",
    "onion",
    "test",
    "invalid",
    "example",
    "alt",
    "localdomain",
    "svc",
    "cluster",
];

/// Printable characters that are not as they stand in a URL: those that no URL has (RFC 3986), the sign of a fragment, and
/// the quote that a query must escape (WHATWG URL, "special-query percent-encode set").
const NO_URL: [u8; 11] = *b"\\#\"<>^`{|}'";

/// The URL of a push service for one subscription, of a form that the hub may call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint(String);

/// Why a URL may not be called, as the end of the sentence "The endpoint ...".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsafe(pub &'static str);

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Scheme and authority, and where the latter ends.
fn parts(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    Some((scheme, rest.get(..end)?))
}

impl Endpoint {
    /// Takes a URL that is safe to call. `insecure`: one on this machine may be called too, also over `http`.
    pub fn parse(url: &str, insecure: bool) -> Result<Self, Unsafe> {
        if url.len() > MAX_ENDPOINT {
            return Err(Unsafe("is longer than 2,048 bytes"));
        }
        // Whatever a URL parser would drop, turn or decode, so that it read another host than this does; and what it would
        // escape, so that what is sent were longer than what is kept.
        if !url.bytes().all(|byte| byte.is_ascii_graphic() && !NO_URL.contains(&byte)) {
            return Err(Unsafe("must be a URL of printable ASCII without a fragment, with all else escaped"));
        }
        let (scheme, authority) = parts(url).ok_or(Unsafe("must be an absolute URL"))?;
        if authority.contains('@') {
            return Err(Unsafe("must not contain credentials"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        // As a URL parser would write it, for it is a part of the origin.
        let is_port = |text: &str| text.parse().is_ok_and(|port: u16| port > 0 && port.to_string() == text);
        if port.is_some_and(|port| !is_port(port)) {
            return Err(Unsafe("has a malformed port"));
        }
        let on_this_machine = insecure && matches!(host, "localhost" | "127.0.0.1" | "[::1]");
        match scheme {
            "https" => {}
            "http" if on_this_machine => {}
            _ => return Err(Unsafe("must be an https URL")),
        }
        if !on_this_machine {
            check_host(host)?;
        }
        Ok(Self(url.to_owned()))
    }

    /// The URL.
    pub fn url(&self) -> &str {
        &self.0
    }

    /// The push service: its origin, with the port unless it is the scheme's own (RFC 6454).
    pub fn origin(&self) -> String {
        let (scheme, authority) = parts(&self.0).unwrap_or_default();
        let usual = if scheme == "https" { ":443" } else { ":80" };
        let authority = authority.strip_suffix(usual).unwrap_or(authority);
        format!("{scheme}://{}", authority.to_ascii_lowercase())
    }
}

/// What stands for an endpoint where it would take too much room: the first half of its SHA-256, as text in base64url.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct EndpointId([u8; 16]);

impl EndpointId {
    /// The id of an endpoint.
    pub fn of(endpoint: &str) -> Self {
        let mut id = [0; 16];
        id.iter_mut().zip(Sha256::digest(endpoint)).for_each(|(to, from)| *to = from);
        Self(id)
    }
}

impl From<EndpointId> for String {
    fn from(id: EndpointId) -> Self {
        to_base64url(&id.0)
    }
}

impl From<String> for EndpointId {
    /// Reads an id, or an endpoint in its place, as hubs wrote it before there were ids: no endpoint is base64url.
    fn from(text: String) -> Self {
        let id = from_base64url(&text).and_then(|bytes| bytes.try_into().ok());
        id.map_or_else(|| Self::of(&text), Self)
    }
}

fn check_host(host: &str) -> Result<(), Unsafe> {
    const NO_NAME: Unsafe = Unsafe("must name its host by a public domain name");
    let host = host.to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host);
    if host.len() > MAX_HOST {
        return Err(NO_NAME);
    }
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let labels: Vec<&str> = host.split('.').collect();
    let Some(last) = labels.last().filter(|_| labels.len() > 1 && labels.iter().all(|label| is_label(label))) else {
        return Err(NO_NAME);
    };
    // A last label that is a number makes the whole an IPv4 address, in whatever notation (WHATWG URL, "ends in a number").
    if last.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(NO_NAME);
    }
    if PRIVATE.contains(last) { Err(Unsafe("must not be on a private network")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_of_push_services_are_taken_as_they_are() {
        for good in [
            "https://fcm.googleapis.com/fcm/send/abc:APA91b",
            "https://updates.push.services.mozilla.com/wpush/v2/gAAAA?x=1",
            "https://web.push.apple.com:443/QG",
            "https://push.service.com.:8443/%41",
            "https://xn--bcher-kva.com",
        ] {
            assert_eq!(Endpoint::parse(good, false).as_ref().map(Endpoint::url), Ok(good));
        }
    }

    #[test]
    fn whatever_could_lead_inside_is_refused() {
        for odd in [
            "",
            "push.service.com/x",
            "/x",
            "//push.service.com/x",
            "http://push.service.com/x",
            "HTTPS://push.service.com",
            "ftp://push.service.com",
            "file:///etc/passwd",
            "https:///x",
            "https://",
            "https:push.service.com",
            "https://user@push.service.com/x",
            "https://user:pass@push.service.com",
            "https://@push.service.com",
            "https://127.0.0.1/x",
            "https://10.0.0.1",
            "https://8.8.8.8",
            "https://1.1",
            "https://2130706433",
            "https://0x7f.1",
            "https://0x7f000001",
            "https://127.0.0.0x1",
            "https://0177.0.0.01",
            "https://127.0.0.1.",
            "https://[::1]",
            "https://[::1]:443/x",
            "https://[::ffff:127.0.0.1]",
            "https://[fe80::1]/",
            "https://localhost",
            "https://LOCALHOST./",
            "https://a.localhost:8443/x",
            "https://printer.local",
            "https://metadata.google.internal/x",
            "https://nas.lan",
            "https://router.home.arpa",
            "https://x.corp",
            "https://intranet",
            "https://push..com",
            "https://.com",
            "https://push.service.com..",
            "https://pu%73h.com",
            "https://push.service.com\\@127.0.0.1/",
            "https://push.service.com#@127.0.0.1/",
            "https://push\u{FF0E}com",
            "https://127\u{3002}0.0.1",
            "https://push .com",
            "https://push.service.com/\u{9}x",
            "https://push.com:65536",
            "https://push.com:",
            "https://push.com:x",
            "https://push.com:+1",
            "https://push.com:1:2",
            " https://push.com",
            "https://push.com?@127.0.0.1 ",
            "https://push,com",
            "https://127.0.0.1?.push.com",
            "https://localhost/.com",
            "https://017700000001",
            "https://0x7f.0x0.0x0.0x1",
            "https://push.com.0x7f",
            "https://127.0.0.1.:443/",
            "https://169.254.169.254/latest/meta-data",
            "https://metadata.google.internal./x",
            "https://hub.LOCAL:8443",
            "https://router.home.arpa./",
            "https://1.0.0.127.in-addr.arpa",
            "https://a.localdomain",
            "https://kubernetes.default.svc/",
            "https://kubernetes.default.SVC./",
            "https://api.team.cluster",
            "https://kubernetes.default.svc.cluster.local.",
            "https://service.onion",
            "https://com",
            "https://push.service.com%00.internal",
            "https://push.service.com%2f@127.0.0.1",
            "https://push.service.com\u{0}",
            "https://push.service.com\r\nHost: internal/",
            "https://push.service.com/x\r\nX-Header: 1",
            "https://[::1",
            "https://::1]",
            "https://[::1]x",
            "https://[::7f00:1%25eth0]/",
            "https://push.com:0",
            "https://push.com:0443",
            "https://push.com:443:443",
            "https://push.com:-1",
            "https://b\u{fc}cher.com",
            "https:\\\\push.com",
            "https:/push.com",
            "https:///push.com",
            "https://user@[::1]/",
            "javascript://push.com/%0aalert(1)",
            "wss://push.com/x",
            "https://push.com/\"",
            "https://push.com/<x",
            "https://push.com/x>",
            "https://push.com/{x",
            "https://push.com/x}",
            "https://push.com/^",
            "https://push.com/`",
            "https://push.com?a|b",
            "https://push.com?it's",
            "https://push.com?a\\b",
            "https://push.com?a b",
            "https://push.com/\u{7f}",
        ] {
            assert!(Endpoint::parse(odd, false).is_err(), "{odd}");
        }
        let long = |length: usize| format!("https://push.com/{}", "x".repeat(length - "https://push.com/".len()));
        assert!(Endpoint::parse(&long(MAX_ENDPOINT), false).is_ok());
        let labels = format!("https://{}.com", "a".repeat(64));
        for odd in [long(MAX_ENDPOINT + 1), long(1_000_000), labels, format!("https://{}com", "a.".repeat(127))] {
            assert!(Endpoint::parse(&odd, false).is_err(), "{} bytes", odd.len());
        }
        for local in ["http://localhost:1/x", "http://127.0.0.1:8/x", "https://localhost", "http://[::1]:8/x"] {
            assert!(Endpoint::parse(local, false).is_err(), "{local}");
        }
    }

    #[test]
    fn in_development_this_machine_may_be_called_and_nothing_else_of_its_network() {
        for local in ["http://localhost:1/x", "http://127.0.0.1:8/x", "https://localhost", "http://[::1]:8/x"] {
            assert!(Endpoint::parse(local, true).is_ok(), "{local}");
        }
        for odd in [
            "http://push.service.com",
            "http://127.0.0.2",
            "https://10.0.0.1",
            "http://a.localhost",
            "http://u@localhost",
            "http://localhost.:1",
            "http://LOCALHOST",
        ] {
            assert!(Endpoint::parse(odd, true).is_err(), "{odd}");
        }
    }

    #[test]
    fn an_id_is_short_its_endpoints_own_and_read_from_its_text_or_from_the_endpoint_itself() {
        let endpoint = format!("https://push.com/{}", "x".repeat(2_000));
        let id = EndpointId::of(&endpoint);
        let text = String::from(id);
        assert_eq!((text.len(), EndpointId::from(text), EndpointId::from(endpoint.clone())), (22, id, id));
        assert_ne!(EndpointId::of(&format!("{endpoint}?")), id);
    }

    #[test]
    fn an_origin_has_the_port_unless_it_is_the_usual_one() {
        for (url, origin) in [
            ("https://push.com/x", "https://push.com"),
            ("https://push.com:443/x", "https://push.com"),
            ("https://Push.com:8443?x", "https://push.com:8443"),
            ("http://127.0.0.1:80/x", "http://127.0.0.1"),
            ("http://[::1]:8080/x", "http://[::1]:8080"),
            ("https://localhost:80/x", "https://localhost:80"),
        ] {
            assert_eq!(Endpoint::parse(url, true).map(|endpoint| endpoint.origin()), Ok(origin.to_owned()));
        }
    }
}
