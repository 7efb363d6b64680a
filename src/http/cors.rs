//! Cross-origin requests (CORS): which other origins may access the hub (variable `CORS_ORIGINS`).

use http::{HeaderMap, HeaderName, HeaderValue, header};

// A constant, because parsing the name at run time adds 4 KB to the wasm.
const TIMING_ALLOW_ORIGIN: HeaderName = HeaderName::from_static("timing-allow-origin");

/// The allowed origins besides the hub's own; `*` allows any origin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cors(pub Vec<String>);

impl Cors {
    /// Parses a comma-separated list, or `*`.
    pub fn parse(origins: &str) -> Result<Self, String> {
        let listed = origins.split(',').map(|origin| origin.trim().trim_end_matches('/')).filter(|o| !o.is_empty());
        let listed: Vec<String> = listed.map(str::to_owned).collect();
        match listed.iter().find(|origin| !is_origin(origin)) {
            Some(invalid) if listed != ["*"] => Err(format!(
                "CORS_ORIGINS must be `*` or a comma-separated list of origins such as `https://console.example`, but has `{invalid}`."
            )),
            _ => Ok(Self(listed)),
        }
    }

    /// Whether a request from `origin` is allowed. `host` is the header `Host`; an origin with this host is always allowed.
    pub fn allows(&self, origin: &str, host: &str) -> bool {
        let is_own = origin.split_once("://").is_some_and(|(_, origin_host)| origin_host.eq_ignore_ascii_case(host));
        is_own || self.0.iter().any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(origin))
    }

    /// Returns the CORS headers of a response; at most `Vary` if the origin is not allowed.
    pub fn headers(&self, origin: Option<&str>, host: &str, is_preflight: bool) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.0.is_empty() {
            return headers;
        }
        headers.insert(header::VARY, HeaderValue::from_static("Origin"));
        let allowed = origin.filter(|origin| self.allows(origin, host)).and_then(|o| HeaderValue::from_str(o).ok());
        let Some(origin) = allowed else { return headers };
        headers.insert(TIMING_ALLOW_ORIGIN, origin.clone());
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("retry-after, server-timing, x-request-id"),
        );
        if is_preflight {
            let methods = HeaderValue::from_static("GET, POST, PATCH, DELETE, OPTIONS");
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
            let request_headers = HeaderValue::from_static("authorization, content-type, last-event-id");
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, request_headers);
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
        }
        headers
    }
}

fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return false };
    let has_only = |text: &str, punctuation: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || punctuation.contains(c))
    };
    has_only(scheme, "+-.") && has_only(host, "-._:[]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_and_the_listed_origins_are_allowed() {
        let cors = Cors::parse("https://a.example, https://b.example/").unwrap();
        assert!(cors.allows("https://a.example", "hub.example"));
        assert!(cors.allows("https://b.example", "hub.example"));
        assert!(cors.allows("https://hub.example", "hub.example"));
        for foreign in ["https://c.example", "null", "", "https://a.example.evil.example", "https://hub.example:444"] {
            assert!(!cors.allows(foreign, "hub.example"), "{foreign}");
        }
        assert!(Cors::parse("*").unwrap().allows("https://c.example", "hub.example"));
        assert_eq!(Cors::parse(" , "), Ok(Cors::default()));
    }

    #[test]
    fn invalid_origins_are_rejected() {
        for valid in
            ["http://localhost:5173", "https://[::1]:8443", "app://console", "https://A.example,http://10.0.0.1"]
        {
            assert!(Cors::parse(valid).is_ok(), "{valid}");
        }
        let invalid = "console.example https:// ://console.example https://console.example/app https://*.example \
            https://ada@console.example https://console.example? null true *,https://console.example";
        for invalid in invalid.split(' ').chain(["https://a.example https://b.example"]) {
            let error = Cors::parse(invalid).unwrap_err();
            assert!(error.contains("CORS_ORIGINS") && error.contains("https://console.example`"), "{invalid}: {error}");
        }
    }
}
