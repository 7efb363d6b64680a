//! The web client's tokens: short-lived JWTs (RFC 7519), signed with HMAC-SHA256.
//!
//! The algorithm is pinned: what a token's header claims is compared with `HS256`, never obeyed. Time is an argument
//! everywhere, because the wasm target has no system clock.

use jwt_compact::alg::{Hs256, Hs256Key};
use jwt_compact::{AlgorithmExt as _, Claims, Header, UntrustedToken};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use super::token::MAX_TOKEN_BYTES;
use crate::model::namespace::Namespace;

/// Seconds from a token's issue to the moment when it is no longer accepted.
pub const LIFETIME_SECS: i64 = 15 * 60;

/// The shortest secret that is taken, in bytes (RFC 7518 section 3.2).
const MIN_SECRET_BYTES: usize = 32;

/// Who the bearer of a token is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebClaims {
    /// The user's number.
    pub uid: u32,
    /// The one namespace that the token opens.
    pub ns: Namespace,
}

/// What a good token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Who its bearer is.
    pub claims: WebClaims,
    /// The Unix second from which on it is good no more.
    pub expires: i64,
}

/// Why no token could be issued.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The key is empty, so that anybody could sign with it.
    #[error("the JWT secret is empty: set JWT_SECRET to at least 32 random bytes, or leave it unset")]
    EmptyKey,
    /// The claims could not be written as JSON.
    #[error("the token could not be written: {0}")]
    Encoding(String),
}

/// The key that signs and verifies tokens.
///
/// An empty key signs and verifies nothing.
#[derive(Debug, Clone)]
pub struct JwtKey(Option<Hs256Key>);

/// What a token's header says besides the algorithm.
#[derive(Clone, Deserialize)]
struct Extensions {
    /// Whether it names extensions that must be understood to read the token: none is (RFC 7515 section 4.1.11).
    #[serde(default, rename = "crit", deserialize_with = "is_there")]
    critical: bool,
}

fn is_there<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(value).map(|_| true)
}

/// The claims as they are signed. Verification reads `exp` through [`Claims`], which takes it for itself.
#[derive(Serialize)]
struct Issued<'a> {
    #[serde(flatten)]
    web: &'a WebClaims,
    iat: i64,
    exp: i64,
}

impl JwtKey {
    /// Reads the configured secret, `JWT_SECRET`; the error says what is wrong.
    pub fn parse(secret: &str) -> Result<Self, String> {
        if secret.len() < MIN_SECRET_BYTES {
            return Err(format!(
                "The secret JWT_SECRET must have at least {MIN_SECRET_BYTES} bytes, all of them random."
            ));
        }
        Ok(Self::new(secret.as_bytes()))
    }

    /// Takes the secret's bytes as they are.
    pub fn new(secret: &[u8]) -> Self {
        Self((!secret.is_empty()).then(|| Hs256Key::new(secret)))
    }

    /// Signs a token that is good from `now_secs` (Unix seconds) for [`LIFETIME_SECS`].
    pub fn issue(&self, claims: &WebClaims, now_secs: i64) -> Result<String, IssueError> {
        let key = self.0.as_ref().ok_or(IssueError::EmptyKey)?;
        let issued = Issued { web: claims, iat: now_secs, exp: now_secs.saturating_add(LIFETIME_SECS) };
        let header = Header::empty().with_token_type("JWT");
        Hs256.token(&header, &Claims::new(issued), key).map_err(|error| IssueError::Encoding(error.to_string()))
    }

    /// What a token says that this key signed and that is good at `now_secs` (Unix seconds), else `None`.
    ///
    /// A token without `exp` is refused, one with `exp` is refused from that second on (RFC 7519 section 4.1.4), and
    /// one with `nbf` before that second. So is one whose header has `crit`. There is no leeway: the hub that verifies is the hub that issued.
    pub fn verify(&self, token: &str, now_secs: i64) -> Option<Verified> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let key = self.0.as_ref()?;
        let untrusted = UntrustedToken::<Extensions>::try_from(token).ok()?;
        if untrusted.header().other_fields.critical {
            return None;
        }
        let verified = Hs256.validator::<WebClaims>(key).validate(&untrusted).ok()?;
        let claims = verified.claims();
        let expires = claims.expiration?.timestamp();
        let begins = claims.not_before.map(|time| time.timestamp());
        let is_good = now_secs < expires && begins.is_none_or(|begins| begins <= now_secs);
        is_good.then(|| Verified { claims: claims.custom.clone(), expires })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use hmac::{Hmac, Mac as _};
    use proptest::prelude::*;
    use sha2::Sha256;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
    const NOW: i64 = 1_700_000_000;

    // Made with another implementation, `node:crypto`, from SECRET and
    // `{uid: 7, ns: 'team-7', iat: 1700000000, exp: 1700000900}`.
    const GOOD: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
        eyJ1aWQiOjcsIm5zIjoidGVhbS03IiwiaWF0IjoxNzAwMDAwMDAwLCJleHAiOjE3MDAwMDA5MDB9.\
        RnXB0XOVnMqPbL0Ng1PZLXyDE6em0iRTmEU2ms43_lc";
    const HS512: &str = "eyJhbGciOiJIUzUxMiIsInR5cCI6IkpXVCJ9.\
        eyJ1aWQiOjcsIm5zIjoidGVhbS03IiwiaWF0IjoxNzAwMDAwMDAwLCJleHAiOjE3MDAwMDA5MDB9.\
        pXfRjPynSs4DCgO7ElNqMxfY7Mazoi5ci2-fqLVURCkXieMOa9S_C3_ysHE11cH8HRh2wW5WxCp4-B4qP1ZLjw";

    fn key() -> JwtKey {
        JwtKey::new(SECRET)
    }

    fn verify(token: &str, now: i64) -> Option<WebClaims> {
        key().verify(token, now).map(|verified| verified.claims)
    }

    fn claims() -> WebClaims {
        WebClaims { uid: 7, ns: Namespace::parse("team-7").unwrap() }
    }

    /// Signs any header and payload by hand, with the right key.
    fn signed(header: &str, payload: &str) -> String {
        let head = URL_SAFE_NO_PAD.encode(header);
        let data = format!("{head}.{}", URL_SAFE_NO_PAD.encode(payload));
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET).unwrap();
        mac.update(data.as_bytes());
        let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
        format!("{data}.{signature}")
    }

    fn part(token: &str, index: usize) -> serde_json::Value {
        let part = token.split('.').nth(index).unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    #[test]
    fn a_token_made_by_another_implementation_is_understood() {
        assert_eq!(verify(GOOD, NOW), Some(claims()));
    }

    #[test]
    fn an_issued_token_says_what_it_should_and_verifies() {
        let token = key().issue(&claims(), NOW).unwrap();
        assert_eq!(part(&token, 0), serde_json::json!({"alg": "HS256", "typ": "JWT"}));
        assert_eq!(part(&token, 1), serde_json::json!({"uid": 7, "ns": "team-7", "iat": NOW, "exp": NOW + 900}));
        assert_eq!(token, GOOD, "bit for bit what the other implementation made");
        assert_eq!(verify(&token, NOW), Some(claims()));
    }

    #[test]
    fn a_token_tells_until_when_it_is_good() {
        assert_eq!(key().verify(GOOD, NOW).map(|verified| verified.expires), Some(NOW + 900));
    }

    #[test]
    fn a_token_is_good_for_fifteen_minutes_to_the_second() {
        assert_eq!(verify(GOOD, NOW + 899), Some(claims()));
        assert_eq!(verify(GOOD, NOW + 900), None);
        assert_eq!(verify(GOOD, i64::MAX), None);
    }

    #[test]
    fn a_token_signed_with_another_key_is_refused() {
        for other in [&b"0123456789abcdef0123456789abcdeF"[..], &SECRET[..31], b"x"] {
            assert!(JwtKey::new(other).verify(GOOD, NOW).is_none());
        }
    }

    #[test]
    fn an_empty_key_neither_issues_nor_verifies() {
        let empty = JwtKey::new(b"");
        assert!(matches!(empty.issue(&claims(), NOW), Err(IssueError::EmptyKey)));
        // Signed with the empty key, which anybody has.
        let data = GOOD.rsplit_once('.').unwrap().0;
        let mut mac = Hmac::<Sha256>::new_from_slice(b"").unwrap();
        mac.update(data.as_bytes());
        let forged = format!("{data}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()));
        assert!(empty.verify(&forged, NOW).is_none());
    }

    #[test]
    fn the_header_cannot_choose_the_algorithm() {
        let payload = r#"{"uid":7,"ns":"team-7","iat":1700000000,"exp":1700000900}"#;
        let good = signed(r#"{"alg":"HS256"}"#, payload);
        assert_eq!(verify(&good, NOW), Some(claims()), "the helper signs rightly");
        for header in [
            r#"{"alg":"none"}"#,
            r#"{"alg":"None"}"#,
            r#"{"alg":""}"#,
            r#"{"alg":"hs256"}"#,
            r#"{"alg":"HS384"}"#,
            r#"{"alg":"RS256"}"#,
            r#"{"alg":"ES256"}"#,
            r#"{"alg":null}"#,
            r#"{"typ":"JWT"}"#,
            "{}",
            "[]",
            "",
            r#"{"alg":"HS256","cty":"CBOR"}"#,
        ] {
            let token = signed(header, payload);
            assert_eq!(verify(&token, NOW), None, "{header}");
            let (data, _) = token.rsplit_once('.').unwrap();
            assert_eq!(verify(&format!("{data}."), NOW), None, "{header}, unsigned");
        }
        assert_eq!(verify(HS512, NOW), None, "the right key, another algorithm");
    }

    #[test]
    fn a_header_with_extensions_that_must_be_understood_is_refused() {
        let payload = r#"{"uid":7,"ns":"team-7","iat":1700000000,"exp":1700000900}"#;
        let header = |more: &str| format!(r#"{{"alg":"HS256"{more}}}"#);
        for crit in [r#"["b64"]"#, r#"["exp"]"#, r#"["x"]"#, "[]", "null", r#""x""#, "{}", "0"] {
            let token = signed(&header(&format!(r#","crit":{crit},"b64":true,"x":1"#)), payload);
            assert_eq!(verify(&token, NOW), None, "{crit}");
        }
        assert_eq!(verify(&signed(&header(r#","x":1,"b64":true"#), payload), NOW), Some(claims()), "nothing must");
    }

    #[test]
    fn claims_that_are_missing_or_wrong_are_refused_even_when_signed() {
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
    fn text_that_is_no_token_is_refused() {
        let extra = format!("{GOOD}.");
        let spaced = format!(" {GOOD}");
        let padded = format!("{GOOD}=");
        for token in ["", ".", "..", "...", "a.b.c", "s3cret:team-7", &extra, &spaced, &padded] {
            assert_eq!(verify(token, NOW), None, "{token:?}");
        }
    }

    #[test]
    fn a_secret_that_is_too_short_is_refused() {
        assert!(JwtKey::parse("0123456789abcdef0123456789abcdef").unwrap().verify(GOOD, NOW).is_some());
        for short in ["", "secret", "0123456789abcdef0123456789abcde"] {
            let error = JwtKey::parse(short).unwrap_err();
            assert!(error.contains("JWT_SECRET") && error.contains("32 bytes"), "{error}");
        }
    }

    #[test]
    fn a_token_above_its_limit_is_refused_even_when_signed() {
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
        let shown = format!("{:?}", JwtKey::new(b"visible-secret"));
        assert!(!shown.contains("visible") && !shown.contains("118"), "{shown}");
    }

    proptest! {
        #[test]
        fn a_token_changed_in_any_character_is_refused(at in 0..GOOD.len(), to in "[A-Za-z0-9_.-]") {
            let mut changed = GOOD.to_owned();
            changed.replace_range(at..=at, &to);
            prop_assume!(changed != GOOD);
            prop_assert_eq!(verify(&changed, NOW), None);
        }

        #[test]
        fn what_was_issued_verifies_until_it_expires(
            uid in any::<u32>(),
            ns in "[A-Za-z0-9._-]{1,64}",
            now in 0i64..4_000_000_000,
            age in 0i64..2_000,
        ) {
            let claims = WebClaims { uid, ns: Namespace::parse(&ns).unwrap() };
            let token = key().issue(&claims, now).unwrap();
            let expected = (age < LIFETIME_SECS).then_some(claims);
            prop_assert_eq!(verify(&token, now + age), expected);
        }

        #[test]
        fn no_text_is_a_panic(token in any::<String>()) {
            prop_assert_eq!(verify(&token, NOW), None);
        }
    }
}
