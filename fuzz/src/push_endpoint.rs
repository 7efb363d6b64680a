//! Endpoints of push subscriptions: whatever is taken, a URL parser reads the same host in it, and that is a public name.

use session_gateway_hub::push::endpoint::{Endpoint, MAX_ENDPOINT_BYTES};
use url::{Host, Url};

/// Last labels of private names, and of those that stand for an address.
const PRIVATE: [&str; 6] = ["localhost", "local", "internal", "lan", "arpa", "home"];

pub fn run(text: &str) {
    if let Ok(endpoint) = Endpoint::parse(text, false) {
        assert_eq!(endpoint.url(), text);
        assert!(text.len() <= MAX_ENDPOINT_BYTES && Endpoint::parse(text, true).as_ref() == Ok(&endpoint));
        callable(&endpoint);
        public(&endpoint);
    } else if let Ok(endpoint) = Endpoint::parse(text, true) {
        let url = Url::parse(endpoint.url()).expect("a URL");
        assert!(matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")), "{text:?}");
        same(&endpoint, &url);
    }
}

/// As the URI of a request it is allowed, too, and of the same origin.
fn callable(endpoint: &Endpoint) {
    let uri: http::Uri = endpoint.url().parse().expect("a URI");
    let called = Endpoint::parse(&uri.to_string(), false).map(|called| called.origin());
    assert_eq!(called, Ok(endpoint.origin()));
}

fn escapes(url: &str) -> usize {
    url.matches('%').count()
}

fn public(endpoint: &Endpoint) {
    // A name that is none, such as broken punycode, is called by nobody.
    let Ok(url) = Url::parse(endpoint.url()) else { return };
    assert_eq!(url.scheme(), "https");
    let Some(Host::Domain(host)) = url.host() else { panic!("{endpoint} leads to {:?}", url.host()) };
    let host = host.strip_suffix('.').unwrap_or(host);
    let (_, last) = host.rsplit_once('.').unwrap_or_else(|| panic!("{endpoint} has one label"));
    assert!(!PRIVATE.contains(&last), "{endpoint} leads to {host}");
    same(endpoint, &url);
}

/// Nothing of the authority is read differently, and nothing has to be escaped.
fn same(endpoint: &Endpoint, url: &Url) {
    assert!(escapes(url.as_str()) <= escapes(endpoint.url()), "{endpoint} is {url}");
    assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none(), "{endpoint}");
    assert_eq!(endpoint.origin(), url.origin().ascii_serialization(), "{endpoint}");
}
