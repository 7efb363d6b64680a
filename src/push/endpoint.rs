//! Validation of push endpoints against server-side request forgery: a URL of a client must not address the hub's private network.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{from_base64url, to_base64url};

/// The longest endpoint of a subscription, in bytes.
pub const MAX_ENDPOINT_BYTES: usize = 2_048;

/// The longest host name as text, in bytes. In a DNS message, the name has at most 255 bytes (RFC 1035 section 2.3.4), of which
/// the text lacks two: the first length byte and the root label.
const MAX_HOST_BYTES: usize = 253;

/// Top-level domains of private networks: RFC 6761, 6762, 7686, 8375, 9476, and common use. `svc` and `cluster` end
/// the short names of Kubernetes services, such as `app.default.svc`.
const PRIVATE_DOMAINS: &str = "localhost local internal intranet private corp home lan arpa onion test invalid example alt localdomain svc cluster";

/// Printable characters that a URL must escape (RFC 3986, WHATWG URL "special-query percent-encode set"), and `#`.
const FORBIDDEN: [u8; 11] = *b"\\#\"<>^`{|}'";

/// A valid endpoint: the URL of a push service for one subscription.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint(String);

/// The reason why an endpoint is rejected, as the predicate of the sentence "The endpoint ...".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidEndpoint(pub &'static str);

fn scheme_and_authority(url: &str) -> Option<(&str, &str)> {
    let (scheme, after_scheme) = url.split_once("://")?;
    let authority_end = after_scheme.find(['/', '?']).unwrap_or(after_scheme.len());
    Some((scheme, after_scheme.get(..authority_end)?))
}

impl Endpoint {
    /// Validates a URL. `allow_localhost` also accepts localhost, over `http` too.
    pub fn parse(url: &str, allow_localhost: bool) -> Result<Self, InvalidEndpoint> {
        if url.len() > MAX_ENDPOINT_BYTES {
            return Err(InvalidEndpoint("must have at most 2,048 bytes"));
        }
        // A URL parser removes, converts or decodes some characters, which could change the host. It escapes other characters,
        // which could make the URL longer than the limit.
        if !url.bytes().all(|byte| byte.is_ascii_graphic() && !FORBIDDEN.contains(&byte)) {
            return Err(InvalidEndpoint(
                "must have printable ASCII characters only, be percent-encoded, and have no fragment",
            ));
        }
        let (scheme, authority) = scheme_and_authority(url).ok_or(InvalidEndpoint("must be an absolute URL"))?;
        if authority.contains('@') {
            return Err(InvalidEndpoint("must not contain credentials"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        // A port has one spelling, so that equal origins are equal texts.
        let is_port = |text: &str| text.parse().is_ok_and(|port: u16| port > 0 && port.to_string() == text);
        if port.is_some_and(|port| !is_port(port)) {
            return Err(InvalidEndpoint("must have a port from 1 to 65535, or none"));
        }
        let is_localhost = allow_localhost && matches!(host, "localhost" | "127.0.0.1" | "[::1]");
        match scheme {
            "https" => {}
            "http" if is_localhost => {}
            _ => return Err(InvalidEndpoint("must be an https URL")),
        }
        if !is_localhost {
            check_host(host)?;
        }
        Ok(Self(url.to_owned()))
    }

    pub fn url(&self) -> &str {
        &self.0
    }

    /// Returns the origin (RFC 6454) of the push service, without a default port.
    pub fn origin(&self) -> String {
        let (scheme, authority) = scheme_and_authority(&self.0).unwrap_or_default();
        let default_port = if scheme == "https" { ":443" } else { ":80" };
        let authority = authority.strip_suffix(default_port).unwrap_or(authority);
        format!("{scheme}://{}", authority.to_ascii_lowercase())
    }
}

/// Identifies an endpoint in stored data: the first half of its SHA-256, serialized as base64url.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct EndpointId([u8; 16]);

impl EndpointId {
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

impl TryFrom<String> for EndpointId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bytes = from_base64url(&text).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or("the id of an endpoint is base64url of 16 bytes")
    }
}

fn check_host(host: &str) -> Result<(), InvalidEndpoint> {
    const NOT_A_DOMAIN: InvalidEndpoint = InvalidEndpoint("must have a public domain name as its host");
    let host = host.to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host);
    if host.len() > MAX_HOST_BYTES {
        return Err(NOT_A_DOMAIN);
    }
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let labels: Vec<&str> = host.split('.').collect();
    let Some(last) = labels.last().filter(|_| labels.len() > 1 && labels.iter().all(|label| is_label(label))) else {
        return Err(NOT_A_DOMAIN);
    };
    // A URL parser reads a host that ends in a number as an IPv4 address (WHATWG URL). No top-level domain begins with a digit.
    if last.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(NOT_A_DOMAIN);
    }
    if PRIVATE_DOMAINS.split(' ').any(|domain| domain == *last) {
        Err(InvalidEndpoint("must not be on a private network"))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_of_push_services_are_accepted() {
        for url in [
            "https://fcm.googleapis.com/fcm/send/abc:APA91b",
            "https://updates.push.services.mozilla.com/wpush/v2/gAAAA?x=1",
            "https://web.push.apple.com:443/QG",
            "https://push.service.com.:8443/%41",
            "https://xn--bcher-kva.com",
        ] {
            assert_eq!(Endpoint::parse(url, false).as_ref().map(Endpoint::url), Ok(url));
        }
    }

    #[test]
    fn stored_data_identifies_an_endpoint_by_the_first_half_of_its_sha_256() {
        let id = EndpointId::of("https://push.service.com/phone");
        assert_eq!(String::from(id), "_-_GE-bCjZb7fgpesV4iRQ");
        assert_eq!(EndpointId::try_from(String::from(id)), Ok(id));
        assert!(EndpointId::try_from("https://push.com/x".to_owned()).is_err());
    }

    #[test]
    fn malformed_urls_and_urls_of_private_networks_are_rejected() {
        // Each after `https://`.
        let invalid = "/x user@push.service.com/x @push.service.com 10.0.0.1 0x7f000001 127.0.0.0x1 [::1] [fe80::1]/ LOCALHOST./ \
            printer.local metadata.google.internal/x router.home.arpa intranet push..com .com push.service.com.. \
            push.com:1:2 127.0.0.1?.push.com localhost/.com 017700000001 0x7f.0x0.0x0.0x1 push.com.0x7f 127.0.0.1.:443/ \
            169.254.169.254/latest/meta-data metadata.google.internal./x 1.0.0.127.in-addr.arpa a.localdomain \
            kubernetes.default.SVC./ kubernetes.default.svc.cluster.local. service.onion com \
            push.service.com%00.internal push.service.com%2f@127.0.0.1 [::1]x [::7f00:1%25eth0]/ push.com:0443 \
            push.com/<x push.com/{x push.com/^ push.com/` push.com?a|b push.com?it's";
        for rest in invalid.split(' ') {
            assert!(Endpoint::parse(&format!("https://{rest}"), false).is_err(), "{rest}");
        }
        for url in [
            "",
            "push.service.com/x",
            "/x",
            "//push.service.com/x",
            "http://push.service.com/x",
            "HTTPS://push.service.com",
            "ftp://push.service.com",
            "file:///etc/passwd",
            "https://",
            "https:push.service.com",
            "https://127\u{3002}0.0.1",
            "https://push .com",
            " https://push.com",
            "https://push.com?@127.0.0.1 ",
            "https://push.service.com\u{0}",
            "https://push.service.com\r\nHost: internal/",
            "https://push.service.com/x\r\nX-Header: 1",
            "https://b\u{fc}cher.com",
            "https:\\\\push.com",
            "javascript://push.com/%0aalert(1)",
            "wss://push.com/x",
            "https://push.com/\"",
            "https://push.com?a\\b",
            "https://push.com?a b",
            "https://push.com/\u{7f}",
        ] {
            assert!(Endpoint::parse(url, false).is_err(), "{url}");
        }
        let long = |length: usize| format!("https://push.com/{}", "x".repeat(length - "https://push.com/".len()));
        assert!(Endpoint::parse(&long(MAX_ENDPOINT_BYTES), false).is_ok());
        let long_label = format!("https://{}.com", "a".repeat(64));
        for url in
            [long(MAX_ENDPOINT_BYTES + 1), long(1_000_000), long_label, format!("https://{}com", "a.".repeat(127))]
        {
            assert!(Endpoint::parse(&url, false).is_err(), "{} bytes", url.len());
        }
    }

    #[test]
    fn localhost_is_the_only_private_host_that_can_be_allowed() {
        for local in ["http://localhost:1/x", "http://127.0.0.1:8/x", "https://localhost", "http://[::1]:8/x"] {
            assert!(Endpoint::parse(local, true).is_ok() && Endpoint::parse(local, false).is_err(), "{local}");
        }
        for url in [
            "http://push.service.com",
            "http://127.0.0.2",
            "https://10.0.0.1",
            "http://a.localhost",
            "http://u@localhost",
            "http://localhost.:1",
            "http://LOCALHOST",
        ] {
            assert!(Endpoint::parse(url, true).is_err(), "{url}");
        }
    }

    #[test]
    fn an_origin_has_no_default_port() {
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
