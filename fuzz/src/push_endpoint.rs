//! Endpoints of push subscriptions: an accepted endpoint has the same host for a URL parser, and it is a public name.

use session_gateway_hub::push::endpoint::Endpoint;
use session_gateway_hub::push::endpoint::MAX_ENDPOINT_BYTES;
use url::{Host, Url};

/// Top-level labels of private names, and of names that are mapped from addresses.
const PRIVATE: [&str; 6] = ["localhost", "local", "internal", "lan", "arpa", "home"];

pub fn run(text: &str) {
    if let Ok(endpoint) = Endpoint::parse(text, false) {
        assert_eq!(endpoint.url(), text);
        assert!(text.len() <= MAX_ENDPOINT_BYTES && Endpoint::parse(text, true).as_ref() == Ok(&endpoint));
        check_uri(&endpoint);
        check_public(&endpoint);
    } else if let Ok(endpoint) = Endpoint::parse(text, true) {
        let url = Url::parse(endpoint.url()).expect("a URL");
        assert!(matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")), "{text:?}");
        check_same_origin(&endpoint, &url);
    }
}

/// Checks that the URI of the HTTP request is also allowed, and has the same origin.
fn check_uri(endpoint: &Endpoint) {
    let uri: http::Uri = endpoint.url().parse().expect("a URI");
    let origin = Endpoint::parse(&uri.to_string(), false).map(|endpoint| endpoint.origin());
    assert_eq!(origin, Ok(endpoint.origin()));
}

fn count_escapes(url: &str) -> usize {
    url.matches('%').count()
}

fn check_public(endpoint: &Endpoint) {
    // An invalid name, such as broken punycode, cannot be requested.
    let Ok(url) = Url::parse(endpoint.url()) else { return };
    assert_eq!(url.scheme(), "https");
    let Some(Host::Domain(host)) = url.host() else { panic!("{endpoint:?} has the host {:?}", url.host()) };
    let host = host.strip_suffix('.').unwrap_or(host);
    let (_, last) = host.rsplit_once('.').unwrap_or_else(|| panic!("{endpoint:?} has one label"));
    assert!(!PRIVATE.contains(&last), "{endpoint:?} has the host {host}");
    check_same_origin(endpoint, &url);
}

/// Checks that both parsers find the same origin, and that no character needs escaping.
fn check_same_origin(endpoint: &Endpoint, url: &Url) {
    assert!(count_escapes(url.as_str()) <= count_escapes(endpoint.url()), "{endpoint:?} is {url}");
    assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none(), "{endpoint:?}");
    assert_eq!(endpoint.origin(), url.origin().ascii_serialization(), "{endpoint:?}");
}
