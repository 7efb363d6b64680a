//! Answer tokens, which push messages contain. A token answers one permission request, once (PROTOCOL-PUSH.md "Answers").
//!
//! A token is `sga_<claims>.<MAC>`, both in base64url. The claims are a JSON array of strings. The key of the MAC is derived from the
//! secret of the JWTs, so that an answer token is not valid as a JWT, and a JWT is not valid as an answer token.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::hmac_sha256;
use super::jwt::JwtKey;
use crate::model::namespace::Namespace;

/// How long a token is valid, in milliseconds.
pub const ANSWER_TOKEN_LIFETIME_MS: u64 = 10 * 60 * 1000;

const PREFIX: &str = "sga_";
/// A longer token does not fit a push.
const MAX_BYTES: usize = 4096;
/// The text from which the key is derived. Contains spaces, so that it is not the signed part of a JWT.
const PURPOSE: &[u8] = b"session gateway answer token 1";

/// What a token permits to answer, and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerClaims {
    pub namespace: Namespace,
    pub session: String,
    pub request: String,
    /// The [`fingerprint`] of the request's whole content.
    pub content: String,
    /// The [`fingerprint`] of the push subscription.
    pub subscription: String,
    /// The id of the device whose token made the subscription; empty if another token made the subscription.
    pub device: String,
    /// In Unix milliseconds.
    pub issued_at: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Invalid,
    Expired,
}

#[derive(Clone)]
pub struct AnswerKey {
    current: [u8; 32],
    /// The key of the previous secret, which verifies tokens but signs none.
    previous: Option<[u8; 32]>,
}

impl AnswerKey {
    pub fn derive(key: &JwtKey) -> Self {
        let (current, previous) = key.secrets();
        let derive = |secret: &[u8]| hmac_sha256(secret, &[PURPOSE]);
        Self { current: derive(current), previous: previous.map(derive) }
    }

    /// Returns the token, signed with the current key.
    pub fn issue(&self, claims: &AnswerClaims) -> String {
        let AnswerClaims { namespace, session, request, content, subscription, device, issued_at } = claims;
        let issued_at = issued_at.to_string();
        let claims = [namespace.as_str(), session, request, content, subscription, device, &issued_at];
        let claims = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&claims).unwrap_or_default());
        let mac = hmac_sha256(&self.current, &[claims.as_bytes()]);
        format!("{PREFIX}{claims}.{}", URL_SAFE_NO_PAD.encode(mac))
    }

    /// Returns the claims of a token that is valid at `now` (Unix milliseconds). Compares the MAC in constant time.
    pub fn verify(&self, token: &str, now: u64) -> Result<AnswerClaims, Refusal> {
        let claims = self.verify_mac(token).ok_or(Refusal::Invalid)?;
        let is_expired = now >= claims.issued_at.saturating_add(ANSWER_TOKEN_LIFETIME_MS);
        if is_expired { Err(Refusal::Expired) } else { Ok(claims) }
    }

    fn verify_mac(&self, token: &str) -> Option<AnswerClaims> {
        let (claims, mac) = token.strip_prefix(PREFIX).filter(|_| token.len() <= MAX_BYTES)?.split_once('.')?;
        let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
        let is_signed = |key: &[u8; 32]| bool::from(hmac_sha256(key, &[claims.as_bytes()]).as_slice().ct_eq(&mac));
        if !is_signed(&self.current) && !self.previous.as_ref().is_some_and(is_signed) {
            return None;
        }
        let claims: Vec<String> = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        let [namespace, session, request, content, subscription, device, issued_at] = claims.try_into().ok()?;
        let (namespace, issued_at) = (Namespace::parse(&namespace)?, issued_at.parse().ok()?);
        Some(AnswerClaims { namespace, session, request, content, subscription, device, issued_at })
    }
}

impl fmt::Debug for AnswerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerKey").finish_non_exhaustive()
    }
}

/// Returns a hash of several texts. The hash of `["ab", "c"]` is not the hash of `["a", "bc"]`.
pub fn fingerprint(texts: &[&str]) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(serde_json::to_vec(texts).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";
    const NOW: u64 = 1_700_000_000_000;

    fn key(secret: &str, previous: Option<&str>) -> AnswerKey {
        AnswerKey::derive(&JwtKey::from_settings(Some(secret), previous).unwrap().unwrap())
    }

    fn claims() -> AnswerClaims {
        AnswerClaims {
            namespace: Namespace::parse("team").unwrap(),
            session: "s".into(),
            request: "r \"1\"\n.".into(),
            content: fingerprint(&["{}"]),
            subscription: fingerprint(&["https://a", "b"]),
            device: String::new(),
            issued_at: NOW,
        }
    }

    #[test]
    fn a_changed_or_foreign_token_is_invalid() {
        let token = key(SECRET, None).issue(&claims());
        let verify = |token: &str| key(SECRET, None).verify(token, NOW);
        for position in 0..token.len() {
            let change = |(index, c)| match c {
                c if index != position => c,
                'A' => 'B',
                _ => 'A',
            };
            let changed: String = token.chars().enumerate().map(change).collect();
            assert_eq!(verify(&changed), Err(Refusal::Invalid), "{position}");
        }
        for other in [
            "",
            "sga_",
            "sga_.",
            token.strip_prefix("sga_").unwrap(),
            &format!("{token}="),
            &format!("{token}."),
            &format!(" {token}"),
        ] {
            assert_eq!(verify(other), Err(Refusal::Invalid), "{other}");
        }
        let foreign = key("another secret of 32 random bytes", None);
        assert_eq!(foreign.verify(&token, NOW), Err(Refusal::Invalid));
    }

    #[test]
    fn the_previous_secret_verifies_tokens_but_signs_none() {
        let token = key(SECRET, None).issue(&claims());
        let rotated = key("another secret of 32 random bytes", Some(SECRET));
        assert_eq!(rotated.verify(&token, NOW), Ok(claims()));
        assert_eq!(key(SECRET, None).verify(&rotated.issue(&claims()), NOW), Err(Refusal::Invalid));
    }

    #[test]
    fn an_answer_token_is_not_valid_as_a_jwt_and_a_jwt_is_not_valid_as_an_answer_token() {
        let jwt = JwtKey::parse(SECRET).unwrap();
        let token = key(SECRET, None).issue(&claims());
        assert_eq!(jwt.verify(&token, 0), None);
        // Signed with the secret itself instead of the derived key.
        let text = URL_SAFE_NO_PAD.encode(r#"["team","s","r","c","u","","1700000000000"]"#);
        let mac = hmac_sha256(SECRET.as_bytes(), &[text.as_bytes()]);
        let forged = format!("sga_{text}.{}", URL_SAFE_NO_PAD.encode(mac));
        assert_eq!(key(SECRET, None).verify(&forged, NOW), Err(Refusal::Invalid));
    }

    #[test]
    fn a_fingerprint_depends_on_the_borders_of_the_texts() {
        assert_ne!(fingerprint(&["ab", "c"]), fingerprint(&["a", "bc"]));
        assert_ne!(fingerprint(&["a\",\"b"]), fingerprint(&["a", "b"]));
        assert_ne!(fingerprint(&["a", ""]), fingerprint(&["a"]));
    }
}
