//! The tokens of web clients: short-lived JWTs (RFC 7519), signed with HMAC-SHA256.
//!
//! The header of a token can't choose the algorithm, which is `HS256`. Time is an argument: the wasm target has no system clock.

use jwt_compact::alg::{Hs256, Hs256Key};
use jwt_compact::{AlgorithmExt as _, Claims, CreationError, Header, UntrustedToken};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use crate::auth::token::{MAX_TOKEN_BYTES, SecretId};
use crate::model::json::is_default;
use crate::model::namespace::Namespace;

/// The lifetime of the JWT of a web client, in seconds (PROTOCOL.md "Authentication").
pub const JWT_LIFETIME_SECS: i64 = 15 * 60;

/// RFC 7518 section 3.2.
const MIN_SECRET_BYTES: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebClaims {
    pub uid: u32,
    pub ns: Namespace,
    #[serde(default, rename = "gen", skip_serializing_if = "is_default")]
    pub generation: u32,
    /// The id of the device that signed in.
    #[serde(default, rename = "dev", skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The access secret with which the client signed in; `None` for a device, or if an earlier version signed the token.
    #[serde(default, rename = "sec", skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretId>,
}

#[derive(Debug, Clone)]
pub struct JwtKey {
    current: Hs256Key,
    /// The key of the previous secret, which verifies tokens but signs none.
    previous: Option<Hs256Key>,
}

/// The header of a token without its algorithm.
#[derive(Clone, Deserialize)]
struct Extensions {
    /// Whether the header has critical extensions, of which none is supported (RFC 7515 section 4.1.11).
    #[serde(default, rename = "crit", deserialize_with = "is_present")]
    critical: bool,
}

fn is_present<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(value).map(|_| true)
}

/// The claims as they are signed. Verification reads `exp` through [`Claims`] instead.
#[derive(Serialize)]
struct IssuedClaims<'a> {
    #[serde(flatten)]
    web: &'a WebClaims,
    iat: i64,
    exp: i64,
}

impl JwtKey {
    /// Returns an error for the operator when the secret is too short.
    pub fn parse(secret: &str) -> Result<Self, String> {
        Ok(Self { current: parse_key("JWT_SECRET", secret)?, previous: None })
    }

    /// Parses the settings `JWT_SECRET` and `JWT_SECRET_PREVIOUS`. Returns `None` if neither is set.
    pub fn from_settings(secret: Option<&str>, previous: Option<&str>) -> Result<Option<Self>, String> {
        let previous = previous.map(|secret| parse_key("JWT_SECRET_PREVIOUS", secret)).transpose()?;
        match secret {
            Some(secret) => Ok(Some(Self { previous, ..Self::parse(secret)? })),
            None if previous.is_none() => Ok(None),
            None => {
                Err("The secret JWT_SECRET_PREVIOUS needs JWT_SECRET. Set both, or delete JWT_SECRET_PREVIOUS.".into())
            }
        }
    }

    /// Returns the current and the previous secret, to derive keys for other purposes.
    pub fn secrets(&self) -> (&[u8], Option<&[u8]>) {
        (self.current.as_ref(), self.previous.as_ref().map(AsRef::as_ref))
    }

    /// Signs a token that is valid from `now_secs` (Unix seconds) for [`JWT_LIFETIME_SECS`].
    pub fn issue(&self, claims: &WebClaims, now_secs: i64) -> Result<String, CreationError> {
        let issued = IssuedClaims { web: claims, iat: now_secs, exp: now_secs.saturating_add(JWT_LIFETIME_SECS) };
        let header = Header::empty().with_token_type("JWT");
        Hs256.token(&header, &Claims::new(issued), &self.current)
    }

    /// Returns the claims of a token that is valid at `now_secs`, of the current or the previous key, and its expiry (Unix seconds).
    ///
    /// `exp` is required (RFC 7519 section 4.1.4), `nbf` is respected, `crit` is rejected. There is no leeway for clock skew:
    /// the hub that verifies a token has issued it.
    pub fn verify(&self, token: &str, now_secs: i64) -> Option<(WebClaims, i64)> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let untrusted = UntrustedToken::<Extensions>::try_from(token).ok()?;
        if untrusted.header().other_fields.critical {
            return None;
        }
        let validate = |key: &Hs256Key| Hs256.validator::<WebClaims>(key).validate(&untrusted).ok();
        let verified = validate(&self.current).or_else(|| validate(self.previous.as_ref()?))?;
        let claims = verified.claims();
        let expires_at = claims.expiration?.timestamp();
        let not_before = claims.not_before.map(|time| time.timestamp());
        let is_valid = now_secs < expires_at && not_before.is_none_or(|not_before| not_before <= now_secs);
        is_valid.then(|| (claims.custom.clone(), expires_at))
    }
}

fn parse_key(name: &str, secret: &str) -> Result<Hs256Key, String> {
    if secret.len() < MIN_SECRET_BYTES {
        return Err(format!("The secret {name} must have at least {MIN_SECRET_BYTES} random bytes."));
    }
    Ok(Hs256Key::new(secret))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use hmac::{Hmac, Mac as _};
    use serde_json::json;
    use sha2::Sha256;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";
    const NOW: i64 = 1_700_000_000;

    // Computed with `node:crypto` from SECRET and
    // `{uid: 7, ns: 'team-7', iat: 1700000000, exp: 1700000900}`.
    const VALID: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
        eyJ1aWQiOjcsIm5zIjoidGVhbS03IiwiaWF0IjoxNzAwMDAwMDAwLCJleHAiOjE3MDAwMDA5MDB9.\
        RnXB0XOVnMqPbL0Ng1PZLXyDE6em0iRTmEU2ms43_lc";
    const HS512: &str = "eyJhbGciOiJIUzUxMiIsInR5cCI6IkpXVCJ9.\
        eyJ1aWQiOjcsIm5zIjoidGVhbS03IiwiaWF0IjoxNzAwMDAwMDAwLCJleHAiOjE3MDAwMDA5MDB9.\
        pXfRjPynSs4DCgO7ElNqMxfY7Mazoi5ci2-fqLVURCkXieMOa9S_C3_ysHE11cH8HRh2wW5WxCp4-B4qP1ZLjw";

    fn key() -> JwtKey {
        JwtKey::parse(SECRET).unwrap()
    }

    fn verify(token: &str, now: i64) -> Option<WebClaims> {
        key().verify(token, now).map(|(claims, _)| claims)
    }

    fn claims() -> WebClaims {
        WebClaims { uid: 7, ns: Namespace::parse("team-7").unwrap(), generation: 0, device: None, secret: None }
    }

    fn signed(header: &str, payload: &str) -> String {
        let head = URL_SAFE_NO_PAD.encode(header);
        let data = format!("{head}.{}", URL_SAFE_NO_PAD.encode(payload));
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
        mac.update(data.as_bytes());
        let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
        format!("{data}.{signature}")
    }

    #[test]
    fn an_issued_token_is_that_of_another_implementation_and_is_valid() {
        assert_eq!(key().issue(&claims(), NOW).unwrap(), VALID);
        assert_eq!(verify(VALID, NOW), Some(claims()));
    }

    #[test]
    fn a_token_has_the_generation_and_the_device_that_it_was_issued_for() {
        let secret = Some(SecretId("x".into()));
        let claims = WebClaims { generation: 3, device: Some("d".into()), secret, ..claims() };
        let token = key().issue(&claims, NOW).unwrap();
        let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
        let payload: serde_json::Value = serde_json::from_slice(&payload).unwrap();
        assert_eq!((&payload["gen"], &payload["dev"]), (&json!(3), &json!("d")));
        assert_eq!(verify(&token, NOW), Some(claims));
    }

    #[test]
    fn the_header_cannot_choose_the_algorithm() {
        let payload = r#"{"uid":7,"ns":"team-7","iat":1700000000,"exp":1700000900}"#;
        let valid = signed(r#"{"alg":"HS256"}"#, payload);
        assert_eq!(verify(&valid, NOW), Some(claims()));
        let other = ["none", "None", "", "hs256", "HS384", "RS256", "ES256"].map(|alg| format!(r#"{{"alg":"{alg}"}}"#));
        let invalid = [r#"{"alg":null}"#, r#"{"typ":"JWT"}"#, "{}", "[]", "", r#"{"alg":"HS256","cty":"CBOR"}"#];
        for header in other.iter().map(String::as_str).chain(invalid) {
            let token = signed(header, payload);
            assert_eq!(verify(&token, NOW), None, "{header}");
            let (data, _) = token.rsplit_once('.').unwrap();
            assert_eq!(verify(&format!("{data}."), NOW), None, "{header}, unsigned");
        }
        assert_eq!(verify(HS512, NOW), None, "signed with SECRET, but with HS512");
    }

    #[test]
    fn a_header_with_critical_extensions_is_rejected() {
        let payload = r#"{"uid":7,"ns":"team-7","iat":1700000000,"exp":1700000900}"#;
        let header = |extensions: &str| format!(r#"{{"alg":"HS256"{extensions}}}"#);
        for crit in [r#"["b64"]"#, r#"["exp"]"#, r#"["x"]"#, "[]", "null", r#""x""#, "{}", "0"] {
            let token = signed(&header(&format!(r#","crit":{crit},"b64":true,"x":1"#)), payload);
            assert_eq!(verify(&token, NOW), None, "{crit}");
        }
        assert_eq!(verify(&signed(&header(r#","x":1,"b64":true"#), payload), NOW), Some(claims()), "not critical");
    }

    #[test]
    fn signed_tokens_with_missing_or_invalid_claims_are_rejected() {
        for payload in [
            r#"{"uid":7,"ns":"team-7","iat":1700000000}"#,
            r#"{"uid":7,"ns":"team-7","exp":null}"#,
            r#"{"uid":7,"ns":"team-7","exp":"1700000900"}"#,
            r#"{"uid":7,"ns":"team-7","exp":-1}"#,
            r#"{"uid":7,"ns":"team-7","exp":99999999999999999999}"#,
            r#"{"uid":7,"ns":"team-7","exp":1700000900,"nbf":1700000001}"#,
            r#"{"uid":7,"exp":1700000900}"#,
            r#"{"uid":7,"ns":"team 7","exp":1700000900}"#,
            r#"{"uid":7,"ns":"","exp":1700000900}"#,
            r#"{"ns":"team-7","exp":1700000900}"#,
            r#"{"uid":"7","ns":"team-7","exp":1700000900}"#,
            r#"{"uid":-1,"ns":"team-7","exp":1700000900}"#,
            r#"{"uid":4294967296,"ns":"team-7","exp":1700000900}"#,
            r#"{"uid":7,"ns":"team-7","exp":1700000900"#,
            "[]",
            "null",
            "",
        ] {
            let token = signed(r#"{"alg":"HS256"}"#, payload);
            assert_eq!(verify(&token, NOW), None, "{payload}");
        }
    }

    #[test]
    fn a_short_secret_is_rejected() {
        for short in ["", "secret", "0123456789abcdef0123456789abcde"] {
            let error = JwtKey::parse(short).unwrap_err();
            assert!(error.contains("JWT_SECRET") && error.contains("32 random bytes"), "{error}");
        }
    }

    #[test]
    fn after_a_rotation_tokens_of_the_previous_secret_are_valid_until_it_is_removed() {
        let new = "fedcba9876543210fedcba9876543210";
        let verifies = |previous| {
            let key = JwtKey::from_settings(Some(new), previous).unwrap().unwrap();
            let own = key.issue(&WebClaims { ns: Namespace::default(), ..claims() }, NOW).unwrap();
            assert!(key.verify(&own, NOW).is_some());
            assert!(JwtKey::parse(SECRET).unwrap().verify(&own, NOW).is_none(), "signed with the new secret");
            key.verify(VALID, NOW).is_some()
        };
        assert!(verifies(Some(SECRET)));
        assert!(!verifies(None));
        assert!(JwtKey::from_settings(None, None).unwrap().is_none());
        for (secret, previous) in [(None, SECRET), (Some(SECRET), "short")] {
            let error = JwtKey::from_settings(secret, Some(previous)).unwrap_err();
            assert!(error.contains("JWT_SECRET_PREVIOUS") && !error.contains("short"), "{error}");
        }
    }

    #[test]
    fn a_signed_token_above_the_size_limit_is_rejected() {
        let sized = |padding: usize| {
            let padding = "x".repeat(padding);
            let payload = format!(r#"{{"uid":7,"ns":"team-7","exp":1700000900,"padding":"{padding}"}}"#);
            signed(r#"{"alg":"HS256"}"#, &payload)
        };
        let (short, long) = (sized(600), sized(700));
        assert!(short.len() <= MAX_TOKEN_BYTES && long.len() > MAX_TOKEN_BYTES);
        assert_eq!(verify(&short, NOW), Some(claims()));
        assert_eq!(verify(&long, NOW), None);
    }

    #[test]
    fn debug_output_does_not_show_the_key() {
        let debug_text = format!("{:?}", JwtKey::parse("visible-secret-visible-secret-visible").unwrap());
        assert!(!debug_text.contains("visible") && !debug_text.contains("118"), "{debug_text}");
    }
}
