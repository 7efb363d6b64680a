//! VAPID (RFC 8292): the key pair that identifies the hub to push services, and the tokens that it signs.
//!
//! `jwt-compact` signs the tokens, because `web-push-native` omits the port from `aud`.

use std::collections::HashMap;

use jwt_compact::alg::Es256;
use jwt_compact::{AlgorithmExt as _, Claims, Header};
use p256::ecdsa::SigningKey;
use serde::Serialize;

use super::{from_base64url, to_base64url};

/// The lifetime of a token, in seconds. RFC 8292 allows 24 hours; half of it tolerates clock skew.
const LIFETIME_SECS: u64 = 12 * 3600;
/// How long before its expiry a token is replaced, in seconds.
const RENEW_BEFORE_SECS: u64 = 3600;

/// The hub's key pair. A browser subscribes with its public key; the push service then accepts only requests that this pair signed.
#[derive(Clone)]
pub struct VapidKeys(SigningKey);

impl std::fmt::Debug for VapidKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("VapidKeys").field(&self.public()).finish()
    }
}

impl VapidKeys {
    /// Parses a private key, base64url of 32 bytes.
    pub fn parse(private: &str) -> Option<Self> {
        from_base64url(private).as_deref().and_then(Self::from_bytes)
    }

    /// Returns `None` for an invalid private key.
    pub fn from_bytes(private: &[u8]) -> Option<Self> {
        SigningKey::from_slice(private).ok().map(Self)
    }

    /// Parses `VAPID_PUBLIC_KEY` and `VAPID_PRIVATE_KEY`. `None` if both are absent; an error if one is, or if they do not match.
    pub fn from_settings(public: Option<&str>, private: Option<&str>) -> Result<Option<Self>, String> {
        match (public, private) {
            (None, None) => Ok(None),
            (Some(public), Some(private)) => {
                let keys = Self::parse(private.trim())
                    .ok_or("The secret VAPID_PRIVATE_KEY must be a P-256 private key, base64url of 32 bytes.")?;
                if public.trim().trim_end_matches('=') != keys.public() {
                    return Err("VAPID_PUBLIC_KEY is not the public key of VAPID_PRIVATE_KEY.".into());
                }
                Ok(Some(keys))
            }
            _ => Err("VAPID_PUBLIC_KEY and VAPID_PRIVATE_KEY must be set both, or neither.".into()),
        }
    }

    /// Returns base64url of the uncompressed point, the format of browsers.
    pub fn public(&self) -> String {
        to_base64url(self.0.verifying_key().to_encoded_point(false).as_bytes())
    }

    /// Returns base64url of the private key, the input of [`VapidKeys::parse`].
    pub fn private(&self) -> String {
        to_base64url(&self.0.to_bytes())
    }

    fn sign(&self, claims: &VapidClaims<'_>) -> Option<String> {
        let header = Header::empty().with_token_type("JWT");
        Es256.token(&header, &Claims::new(claims), &self.0).ok()
    }
}

/// Validates the setting `VAPID_SUBJECT`, the contact of the hub's operator for push services.
pub fn parse_subject(text: &str) -> Result<String, String> {
    let text = text.trim();
    let is_printable = |address: &str| !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_graphic());
    let is_mail_address = |address: &str| {
        address.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !host.contains('@'))
    };
    let is_valid = match text.split_once(':') {
        Some(("mailto", address)) => is_printable(address) && is_mail_address(address),
        Some(("https", hierarchy)) => {
            hierarchy.strip_prefix("//").is_some_and(|address| is_printable(address) && !address.starts_with('/'))
        }
        _ => false,
    };
    if is_valid {
        return Ok(text.to_owned());
    }
    Err(format!("VAPID_SUBJECT must be a `mailto:` address or an `https:` URL, but is `{text}`."))
}

#[derive(Serialize)]
struct VapidClaims<'a> {
    aud: &'a str,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub: Option<&'a str>,
}

const MAX_TOKENS: usize = 100;

/// The signed tokens with their expiry, at most [`MAX_TOKENS`], by the origin of the push service and the subject.
#[derive(Debug, Default)]
pub struct TokenCache(HashMap<(String, Option<String>), (String, u64)>);

impl TokenCache {
    /// Returns the header `Authorization` for a push service. `audience` is the origin of the push service, `now` is in Unix
    /// seconds. `None` when the token can't be signed.
    pub fn authorization(
        &mut self,
        keys: &VapidKeys,
        audience: &str,
        subject: Option<&str>,
        now: u64,
    ) -> Option<String> {
        self.0.retain(|_, (_, expires_at)| now + RENEW_BEFORE_SECS < *expires_at);
        let key = (audience.to_owned(), subject.map(str::to_owned));
        let token = match self.0.get(&key) {
            Some((token, _)) => token.clone(),
            None => {
                let expires_at = now + LIFETIME_SECS;
                let token = keys.sign(&VapidClaims { aud: audience, exp: expires_at, sub: subject })?;
                if self.0.len() >= MAX_TOKENS {
                    self.0.clear();
                }
                self.0.insert(key, (token.clone(), expires_at));
                token
            }
        };
        Some(format!("vapid t={token}, k={}", keys.public()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use p256::ecdsa::signature::Verifier;
    use p256::ecdsa::{Signature, VerifyingKey};
    use serde_json::{Value, json};

    const NOW: u64 = 1_700_000_000;

    fn keys() -> VapidKeys {
        VapidKeys::from_bytes(&[7; 32]).unwrap()
    }

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
    fn a_token_has_audience_expiry_and_subject() {
        let header = TokenCache::default().authorization(&keys(), "https://push.example:8443", Some("mailto:a@b"), NOW);
        let expected = json!({"aud": "https://push.example:8443", "exp": NOW + 12 * 3600, "sub": "mailto:a@b"});
        assert_eq!(claims(&header.unwrap()), expected);
        let bare = TokenCache::default().authorization(&keys(), "https://p", None, NOW).unwrap();
        assert_eq!(claims(&bare), json!({"aud": "https://p", "exp": NOW + 12 * 3600}));
    }

    #[test]
    fn a_token_is_reused_until_an_hour_before_its_expiry() {
        let mut tokens = TokenCache::default();
        let mut at = |audience, now| tokens.authorization(&keys(), audience, None, now).unwrap();
        let first = at("https://p", NOW);
        assert_eq!(at("https://p", NOW + 11 * 3600 - 1), first);
        assert_eq!(claims(&at("https://q", NOW))["aud"], "https://q");
        let later = at("https://p", NOW + 11 * 3600);
        assert_eq!(claims(&later)["exp"], NOW + 23 * 3600);
    }

    #[test]
    fn the_cache_has_at_most_a_hundred_tokens() {
        let mut tokens = TokenCache::default();
        for number in 0..150 {
            tokens.authorization(&keys(), &format!("https://p{number}"), None, NOW + number).unwrap();
        }
        assert!(tokens.0.len() <= MAX_TOKENS && tokens.0.contains_key(&("https://p149".to_owned(), None)));
    }

    #[test]
    fn a_key_pair_is_restored_from_its_private_key() {
        let restored = VapidKeys::parse(&keys().private()).unwrap();
        assert_eq!(restored.public(), keys().public());
        assert_eq!(from_base64url(&keys().public()).unwrap().len(), 65);
        for invalid in ["", "x", "AAAA", &to_base64url(&[0; 32]), &to_base64url(&[255; 32]), &keys().public()] {
            assert!(VapidKeys::parse(invalid).is_none(), "{invalid}");
        }
        assert!(!format!("{:?}", keys()).contains(&keys().private()));
    }

    #[test]
    fn configured_keys_must_be_a_pair() {
        let (public, private) = (keys().public(), keys().private());
        assert!(VapidKeys::from_settings(None, None).unwrap().is_none());
        let pair = VapidKeys::from_settings(Some(&public), Some(&format!("{private}\n"))).unwrap().unwrap();
        assert_eq!(pair.public(), public);
        let other = VapidKeys::from_bytes(&[8; 32]).unwrap().public();
        for (public, private) in [
            (Some(&public), None),
            (None, Some(&private)),
            (Some(&other), Some(&private)),
            (Some(&public), Some(&public)),
        ] {
            let error = VapidKeys::from_settings(public.map(String::as_str), private.map(String::as_str)).unwrap_err();
            assert!(error.contains("VAPID_"), "{error}");
        }
    }

    #[test]
    fn a_subject_must_be_a_mail_address_or_an_https_url() {
        for valid in ["mailto:ops@example.org", "https://hub.example", "https://hub.example:8443/about", " mailto:a@b "]
        {
            assert_eq!(parse_subject(valid).as_deref(), Ok(valid.trim()));
        }
        let invalid = "ops@example.org mailto: mailto:ops mailto:@x mailto:a@ mailto:a@b@c http://hub.example https: https:// https:///x \
            MAILTO:a@b tel:1";
        for invalid in invalid.split(' ').chain(["", "mailto:a b@c", "https://a b"]) {
            assert!(parse_subject(invalid).unwrap_err().contains("VAPID_SUBJECT"), "{invalid}");
        }
    }
}
