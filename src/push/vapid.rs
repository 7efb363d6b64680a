//! VAPID (RFC 8292): the key pair by which push services know the hub, and the short-lived tokens that it signs.
//! `jwt-compact` signs them; `web-push-native` could, but leaves the port out of `aud`.

use std::collections::HashMap;

use jwt_compact::alg::Es256;
use jwt_compact::{AlgorithmExt as _, Claims, Header};
use p256::ecdsa::SigningKey;
use serde::Serialize;

use super::{from_base64url, to_base64url};

/// How long a token is good, in seconds: RFC 8292 allows 24 hours, and clocks differ.
pub const LIFETIME_SECS: u64 = 12 * 3600;
/// A token that is good for less than this is not used any more, in seconds.
pub const SPARE_SECS: u64 = 3600;

/// The hub's key pair. Subscriptions are bound to it: with another one they are worth nothing.
#[derive(Clone)]
pub struct VapidKeys(SigningKey);

impl std::fmt::Debug for VapidKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("VapidKeys").field(&self.public()).finish()
    }
}

impl VapidKeys {
    /// The pair of a private key as base64url of 32 bytes.
    pub fn parse(private: &str) -> Option<Self> {
        from_base64url(private).as_deref().and_then(Self::of)
    }

    /// The pair of a private key's bytes; `None` for what is no key.
    pub fn of(private: &[u8]) -> Option<Self> {
        SigningKey::from_slice(private).ok().map(Self)
    }

    /// The pair that a deployment is configured with: both keys, or none. The error says what is wrong.
    pub fn configured(public: Option<&str>, private: Option<&str>) -> Result<Option<Self>, String> {
        match (public, private) {
            (None, None) => Ok(None),
            (Some(public), Some(private)) => {
                let keys = Self::parse(private.trim())
                    .ok_or("The secret VAPID_PRIVATE_KEY must be a private key of P-256: base64url of 32 bytes.")?;
                if public.trim().trim_end_matches('=') != keys.public() {
                    return Err("VAPID_PUBLIC_KEY is not the public key of VAPID_PRIVATE_KEY.".into());
                }
                Ok(Some(keys))
            }
            _ => Err("VAPID_PUBLIC_KEY and VAPID_PRIVATE_KEY must be set both, or neither.".into()),
        }
    }

    /// The public key as a browser takes it: base64url of the uncompressed point.
    pub fn public(&self) -> String {
        to_base64url(self.0.verifying_key().to_encoded_point(false).as_bytes())
    }

    /// The private key, as it is kept.
    pub fn private(&self) -> String {
        to_base64url(&self.0.to_bytes())
    }

    fn sign(&self, claims: &Token<'_>) -> Option<String> {
        let header = Header::empty().with_token_type("JWT");
        Es256.token(&header, &Claims::new(claims), &self.0).ok()
    }
}

/// Reads `VAPID_SUBJECT`: who is to be asked when something is wrong with the hub's pushes. The error says what is wrong.
pub fn parse_subject(text: &str) -> Result<String, String> {
    let text = text.trim();
    let named = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_graphic());
    let is_mail = |rest: &str| {
        rest.split_once('@').is_some_and(|(who, host)| !who.is_empty() && !host.is_empty() && !host.contains('@'))
    };
    let good = match text.split_once(':') {
        Some(("mailto", rest)) => named(rest) && is_mail(rest),
        Some(("https", rest)) => rest.strip_prefix("//").is_some_and(|rest| named(rest) && !rest.starts_with('/')),
        _ => false,
    };
    if good {
        return Ok(text.to_owned());
    }
    Err(format!("VAPID_SUBJECT must be a `mailto:` address or an `https:` URL, but is `{text}`."))
}

#[derive(Serialize)]
struct Token<'a> {
    aud: &'a str,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub: Option<&'a str>,
}

/// The tokens in use, one for each push service (and subject).
#[derive(Debug, Default)]
pub struct Tokens(HashMap<(String, Option<String>), (String, u64)>);

impl Tokens {
    /// The `Authorization` header for a push service, by its origin; `now` in Unix seconds. `None` when it could not be
    /// signed.
    pub fn authorization(
        &mut self,
        keys: &VapidKeys,
        audience: &str,
        subject: Option<&str>,
        now: u64,
    ) -> Option<String> {
        self.0.retain(|_, (_, expires)| now + SPARE_SECS < *expires);
        let of = (audience.to_owned(), subject.map(str::to_owned));
        let token = match self.0.get(&of) {
            Some((token, _)) => token.clone(),
            None => {
                let expires = now + LIFETIME_SECS;
                let token = keys.sign(&Token { aud: audience, exp: expires, sub: subject })?;
                self.0.insert(of, (token.clone(), expires));
                token
            }
        };
        Some(format!("vapid t={token}, k={}", keys.public()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use p256::ecdsa::signature::Verifier;
    use p256::ecdsa::{Signature, VerifyingKey};
    use serde_json::{Value, json};

    const NOW: u64 = 1_700_000_000;

    fn keys() -> VapidKeys {
        VapidKeys::of(&[7; 32]).unwrap()
    }

    /// The claims of a header whose signature is good under the key that it names.
    fn claims(header: &str) -> Value {
        let (token, key) = header.strip_prefix("vapid t=").unwrap().split_once(", k=").unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let key = VerifyingKey::from_sec1_bytes(&from_base64url(key).unwrap()).unwrap();
        let signature = Signature::from_slice(&from_base64url(signature).unwrap()).unwrap();
        key.verify(signed.as_bytes(), &signature).unwrap();
        let (head, body) = signed.split_once('.').unwrap();
        let part = |part| -> Value { serde_json::from_slice(&from_base64url(part).unwrap()).unwrap() };
        assert_eq!(part(head), json!({"alg": "ES256", "typ": "JWT"}));
        part(body)
    }

    #[test]
    fn a_token_says_for_whom_until_when_and_by_whom_it_is() {
        let header = Tokens::default().authorization(&keys(), "https://push.example:8443", Some("mailto:a@b"), NOW);
        let expected = json!({"aud": "https://push.example:8443", "exp": NOW + 12 * 3600, "sub": "mailto:a@b"});
        assert_eq!(claims(&header.unwrap()), expected);
        let bare = Tokens::default().authorization(&keys(), "https://p", None, NOW).unwrap();
        assert_eq!(claims(&bare), json!({"aud": "https://p", "exp": NOW + 12 * 3600}));
    }

    #[test]
    fn one_token_serves_an_origin_until_it_nears_its_end() {
        let mut tokens = Tokens::default();
        let mut at = |audience, now| tokens.authorization(&keys(), audience, None, now).unwrap();
        let first = at("https://p", NOW);
        assert_eq!(at("https://p", NOW + 11 * 3600 - 1), first);
        assert_eq!(claims(&at("https://q", NOW))["aud"], "https://q");
        let later = at("https://p", NOW + 11 * 3600);
        assert_eq!(claims(&later)["exp"], NOW + 23 * 3600);
    }

    #[test]
    fn a_pair_is_kept_by_its_private_key_and_known_by_its_public_one() {
        let again = VapidKeys::parse(&keys().private()).unwrap();
        assert_eq!(again.public(), keys().public());
        assert_eq!(from_base64url(&keys().public()).unwrap().len(), 65);
        for odd in ["", "x", "AAAA", &to_base64url(&[0; 32]), &to_base64url(&[255; 32]), &keys().public()] {
            assert!(VapidKeys::parse(odd).is_none(), "{odd}");
        }
        assert!(!format!("{:?}", keys()).contains(&keys().private()));
    }

    #[test]
    fn a_configured_pair_must_be_whole_and_fit() {
        let (public, private) = (keys().public(), keys().private());
        assert!(VapidKeys::configured(None, None).unwrap().is_none());
        let pair = VapidKeys::configured(Some(&public), Some(&format!("{private}\n"))).unwrap().unwrap();
        assert_eq!(pair.public(), public);
        let other = VapidKeys::of(&[8; 32]).unwrap().public();
        for (public, private) in [
            (Some(&public), None),
            (None, Some(&private)),
            (Some(&other), Some(&private)),
            (Some(&public), Some(&public)),
        ] {
            let error = VapidKeys::configured(public.map(String::as_str), private.map(String::as_str)).unwrap_err();
            assert!(error.contains("VAPID_"), "{error}");
        }
    }

    #[test]
    fn a_subject_is_a_mail_address_or_an_https_url() {
        for good in ["mailto:ops@example.org", "https://hub.example", "https://hub.example:8443/about", " mailto:a@b "]
        {
            assert_eq!(parse_subject(good).as_deref(), Ok(good.trim()));
        }
        for odd in [
            "",
            "ops@example.org",
            "mailto:",
            "mailto:ops",
            "mailto:@x",
            "mailto:a@",
            "mailto:a@b@c",
            "mailto:a b@c",
            "http://hub.example",
            "https:",
            "https://",
            "https:///x",
            "https://a b",
            "MAILTO:a@b",
            "tel:1",
        ] {
            assert!(parse_subject(odd).unwrap_err().contains("VAPID_SUBJECT"), "{odd}");
        }
    }
}
