//! Who may call from a browser page of another origin (variable `CORS_ORIGINS`).

use http::{HeaderMap, HeaderValue, header};

/// The allowed origins, besides the hub's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cors {
    /// No other origin.
    #[default]
    Own,
    /// These.
    Listed(Vec<String>),
    /// Every origin (`*`).
    Any,
}

impl Cors {
    /// Reads a comma list, or `*`; the error says what is wrong.
    pub fn parse(origins: &str) -> Result<Self, String> {
        let listed = origins.split(',').map(|origin| origin.trim().trim_end_matches('/')).filter(|o| !o.is_empty());
        let listed: Vec<String> = listed.map(str::to_owned).collect();
        match listed.as_slice() {
            [] => Ok(Self::Own),
            [any] if any == "*" => Ok(Self::Any),
            _ => match listed.iter().find(|origin| !is_origin(origin)) {
                None => Ok(Self::Listed(listed)),
                Some(wrong) => Err(format!(
                    "CORS_ORIGINS must be `*` or a comma list of origins such as `https://console.example`, but has `{wrong}`."
                )),
            },
        }
    }

    /// Whether a page of this origin may call. `host` is the hub's own, as the request names it.
    pub fn allows(&self, origin: &str, host: &str) -> bool {
        let own = origin.split_once("://").is_some_and(|(_, of_origin)| of_origin.eq_ignore_ascii_case(host));
        own || match self {
            Self::Own => false,
            Self::Listed(origins) => origins.iter().any(|o| o.eq_ignore_ascii_case(origin)),
            Self::Any => true,
        }
    }

    /// The headers that an answer to this origin carries; none when it may not call, or needs no leave.
    pub fn headers(&self, origin: Option<&str>, host: &str, preflight: bool) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if *self == Self::Own {
            return headers;
        }
        headers.insert(header::VARY, HeaderValue::from_static("Origin"));
        let allowed = origin.filter(|origin| self.allows(origin, host)).and_then(|o| HeaderValue::from_str(o).ok());
        let Some(origin) = allowed else { return headers };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("retry-after"));
        if preflight {
            let methods = HeaderValue::from_static("GET, POST, PATCH, DELETE, OPTIONS");
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
            let allowed = HeaderValue::from_static("authorization, content-type, last-event-id");
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
        }
        headers
    }
}

/// Whether a browser could name this origin: scheme, host, and perhaps a port.
fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return false };
    let plain = |text: &str, more: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    plain(scheme, "+-.") && plain(host, "-._:[]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_and_the_listed_origins_may_call() {
        let cors = Cors::parse("https://a.example, https://b.example/").unwrap();
        assert!(cors.allows("https://a.example", "hub.example"));
        assert!(cors.allows("https://b.example", "hub.example"));
        assert!(cors.allows("https://hub.example", "hub.example"));
        for foreign in ["https://c.example", "null", "", "https://a.example.evil.example", "https://hub.example:444"] {
            assert!(!cors.allows(foreign, "hub.example"), "{foreign}");
        }
        assert!(Cors::parse("*").unwrap().allows("https://c.example", "hub.example"));
        assert_eq!(Cors::parse(" , "), Ok(Cors::Own));
    }

    #[test]
    fn a_foreign_origin_gets_no_leave() {
        let cors = Cors::parse("https://a.example").unwrap();
        assert!(!cors.headers(Some("https://evil.example"), "h", true).contains_key("access-control-allow-origin"));
        let headers = cors.headers(Some("https://a.example"), "h", true);
        assert_eq!(headers["access-control-allow-origin"], "https://a.example");
        assert_eq!(headers["access-control-allow-headers"], "authorization, content-type, last-event-id");
        assert!(Cors::Own.headers(Some("https://a.example"), "h", true).is_empty());
    }

    #[test]
    fn what_no_browser_could_name_is_refused_with_what_is_meant() {
        for good in
            ["http://localhost:5173", "https://[::1]:8443", "app://console", "https://A.example,http://10.0.0.1"]
        {
            assert!(Cors::parse(good).is_ok(), "{good}");
        }
        for wrong in [
            "console.example",
            "https://",
            "://console.example",
            "https://console.example/app",
            "https://*.example",
            "https://ada@console.example",
            "https://console.example?",
            "https://a.example https://b.example",
            "null",
            "true",
            "*,https://console.example",
        ] {
            let error = Cors::parse(wrong).unwrap_err();
            assert!(error.contains("CORS_ORIGINS") && error.contains("https://console.example`"), "{wrong}: {error}");
        }
    }
}
