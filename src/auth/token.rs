//! Access tokens: the shared secret and the namespace tokens. CLIs, scripts and the login of the web client use them.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

use crate::limits::MAX_TOKEN_BYTES;
use crate::model::keyword::parse_bool;
use crate::model::namespace::Namespace;

/// The longest secret whose tokens are within [`MAX_TOKEN_BYTES`] for every namespace.
const MAX_SECRET_BYTES: usize = MAX_TOKEN_BYTES - ":".len() - Namespace::MAX_LEN;

/// Verifies access tokens against the hub's secret, `CLI_API_TOKEN`, and its previous secret, `CLI_API_TOKEN_PREVIOUS`, if set.
///
/// A token is `<SECRET>:<NAMESPACE>`, or `<SECRET>` for the namespace `default`. `<SECRET>` is either the shared secret
/// `CLI_API_TOKEN`, which is valid for every namespace, or the namespace's own secret:
/// `base64url(HMAC-SHA256(CLI_API_TOKEN, "namespace:" + NAMESPACE))`, without padding.
///
/// The shared secret may contain colons: a token is first compared as a whole, then split at its last colon.
#[derive(Clone)]
pub struct TokenVerifier {
    current: SharedSecret,
    previous: Option<SharedSecret>,
    accepts_shared: bool,
}

#[derive(Clone)]
struct SharedSecret {
    digest: [u8; 32],
    /// Keyed with the secret. `None` when the secret is blank.
    mac: Option<Hmac<Sha256>>,
}

impl TokenVerifier {
    /// Parses the settings `CLI_API_TOKEN`, `CLI_API_TOKEN_PREVIOUS` and `REQUIRE_NAMESPACE_TOKENS`.
    pub fn parse(
        secret: Option<&str>,
        previous: Option<&str>,
        require_namespace_tokens: Option<&str>,
    ) -> Result<Self, String> {
        let secret = secret.filter(|secret| !secret.trim().is_empty()).ok_or(
            "The secret CLI_API_TOKEN is not set. Set it with `npm run wrangler -- secret put CLI_API_TOKEN`, or in .dev.vars for a local hub.",
        )?;
        let previous = previous.filter(|secret| !secret.trim().is_empty());
        for (name, secret) in [("CLI_API_TOKEN", Some(secret)), ("CLI_API_TOKEN_PREVIOUS", previous)] {
            if secret.is_some_and(|secret| secret.len() > MAX_SECRET_BYTES) {
                return Err(format!("The secret {name} must have at most {MAX_SECRET_BYTES} bytes."));
            }
        }
        let is_extended = |one: &str, other: &str| {
            one.strip_prefix(other)
                .and_then(|rest| rest.strip_prefix(':'))
                .is_some_and(|rest| Namespace::parse(rest).is_some())
        };
        if previous.is_some_and(|previous| is_extended(secret, previous) || is_extended(previous, secret)) {
            return Err(
                "One of the secrets CLI_API_TOKEN and CLI_API_TOKEN_PREVIOUS is the other one with a colon and a \
                        namespace, so tokens would be ambiguous. Set another CLI_API_TOKEN."
                    .into(),
            );
        }
        let required = parse_bool("REQUIRE_NAMESPACE_TOKENS", require_namespace_tokens)?;
        Ok(Self { previous: previous.map(SharedSecret::new), ..Self::new(secret, required) })
    }

    /// With a blank secret no token is valid. With `require_namespace_tokens` the shared secret is not valid, only namespace
    /// tokens are.
    pub fn new(cli_api_token: &str, require_namespace_tokens: bool) -> Self {
        Self { current: SharedSecret::new(cli_api_token), previous: None, accepts_shared: !require_namespace_tokens }
    }

    /// Returns the namespace that `token` grants access to. An invalid token gives no reason, so that a guess reveals nothing.
    pub fn verify(&self, token: &str) -> Option<Namespace> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let default = Namespace::default();
        if self.is_secret_of(&default, token) {
            return Some(default);
        }
        let (secret, suffix) = token.rsplit_once(':')?;
        let namespace = Namespace::parse(suffix)?;
        self.is_secret_of(&namespace, secret).then_some(namespace)
    }

    /// Returns the token of a namespace, `<base64url of the HMAC>:<NAMESPACE>`.
    pub fn namespace_token(&self, namespace: &Namespace) -> String {
        let secret = self.current.derive_secret(namespace).unwrap_or_default();
        format!("{secret}:{namespace}")
    }

    fn is_secret_of(&self, namespace: &Namespace, secret: &str) -> bool {
        // Digests of equal length are compared in constant time; the secrets may differ in length.
        let digest = Sha256::digest(secret);
        let accepted = [Some(&self.current), self.previous.as_ref()].into_iter().flatten();
        let matches = accepted.filter_map(|shared| {
            let own_secret = shared.derive_secret(namespace)?;
            let is_shared = digest.ct_eq(&shared.digest) & Choice::from(u8::from(self.accepts_shared));
            Some(is_shared | digest.ct_eq(&Sha256::digest(own_secret)))
        });
        matches.fold(Choice::from(0), |any, is_match| any | is_match).into()
    }
}

impl SharedSecret {
    fn new(secret: &str) -> Self {
        let is_blank = secret.trim().is_empty();
        let mac = || Hmac::new_from_slice(secret.as_bytes()).ok();
        Self { digest: Sha256::digest(secret).into(), mac: if is_blank { None } else { mac() } }
    }

    /// Returns the namespace's own secret; `None` if the shared secret is blank.
    fn derive_secret(&self, namespace: &Namespace) -> Option<String> {
        let mut mac = self.mac.clone()?;
        mac.update(b"namespace:");
        mac.update(namespace.as_str().as_bytes());
        Some(URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for TokenVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenVerifier").field("accepts_shared", &self.accepts_shared).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Computed with `node:crypto`:
    /// `crypto.createHmac('sha256', 's3cret').update('namespace:' + ns).digest('base64url')`.
    const TEAM: &str = "bQRx2_PD4XdqgVEhF-BUtXxtDvHx7RJS5WcqRf7pk3k";
    const DEFAULT: &str = "gNaeTFGclY-c0n_Pi4AgsvVuVelXfNK1d6mt6y7pjck";

    fn namespace(name: &str) -> Namespace {
        Namespace::parse(name).unwrap()
    }

    fn verify(tokens: &TokenVerifier, token: &str) -> Option<String> {
        tokens.verify(token).map(|ns| ns.to_string())
    }

    #[test]
    fn a_namespace_token_agrees_with_another_implementation() {
        let tokens = TokenVerifier::new("s3cret", true);
        assert_eq!(tokens.namespace_token(&namespace("team-7")), format!("{TEAM}:team-7"));
        assert_eq!(tokens.namespace_token(&Namespace::default()), format!("{DEFAULT}:default"));
    }

    #[test]
    fn invalid_settings_are_rejected() {
        let accepts_shared = |required| {
            TokenVerifier::parse(Some("s3cret"), None, required).map(|tokens| verify(&tokens, "s3cret").is_some())
        };
        let settings = [None, Some("false"), Some("True")];
        assert_eq!(settings.map(accepts_shared), [Ok(true), Ok(true), Ok(false)]);
        for value in ["yes", "1", " true", "0"] {
            assert!(accepts_shared(Some(value)).unwrap_err().contains("REQUIRE_NAMESPACE_TOKENS"), "{value}");
        }
        let long = "x".repeat(MAX_SECRET_BYTES + 1);
        for secret in [None, Some(""), Some(" \n"), Some(long.as_str())] {
            let error = TokenVerifier::parse(secret, None, None).unwrap_err();
            assert!(error.contains("CLI_API_TOKEN") && !error.contains("xxx"), "{error}");
        }
        let error = TokenVerifier::parse(Some("s3cret"), Some(&long), None).unwrap_err();
        assert!(error.contains("CLI_API_TOKEN_PREVIOUS") && !error.contains("xxx"), "{error}");
        for (secret, previous) in [("k:v2", "k"), ("k", "k:v2")] {
            let error = TokenVerifier::parse(Some(secret), Some(previous), None).unwrap_err();
            assert!(
                error.contains("ambiguous"),
                "a token `k:v2` of the namespace v2 would open the namespace default: {error}"
            );
        }
    }

    #[test]
    fn after_a_rotation_tokens_of_the_previous_secret_are_valid_until_it_is_removed() {
        let parse = |previous, required| TokenVerifier::parse(Some("new"), previous, Some(required)).unwrap();
        let tokens = parse(Some("s3cret"), "false");
        let own = format!("{TEAM}:team-7");
        assert_eq!(verify(&tokens, "new:team-7").as_deref(), Some("team-7"));
        assert_eq!(verify(&tokens, "s3cret:team-7").as_deref(), Some("team-7"));
        assert_eq!(verify(&tokens, &own).as_deref(), Some("team-7"));
        assert_ne!(tokens.namespace_token(&namespace("team-7")), own, "new tokens are of the new secret");

        let tokens = parse(Some("s3cret"), "true");
        assert_eq!(verify(&tokens, "s3cret:team-7"), None);
        assert_eq!(verify(&tokens, &own).as_deref(), Some("team-7"));

        for previous in [None, Some(""), Some(" ")] {
            let tokens = parse(previous, "false");
            for token in ["s3cret:team-7", &own, "", ":team-7", " :team-7"] {
                assert_eq!(verify(&tokens, token), None, "{token} with {previous:?}");
            }
        }
    }

    #[test]
    fn a_token_above_the_size_limit_is_rejected() {
        let longest = "x".repeat(MAX_SECRET_BYTES);
        let name = "n".repeat(Namespace::MAX_LEN);
        let token = format!("{longest}:{name}");
        assert_eq!(token.len(), MAX_TOKEN_BYTES);
        assert_eq!(verify(&TokenVerifier::new(&longest, false), &token), Some(name));
        let huge = "x".repeat(MAX_TOKEN_BYTES + 1);
        assert_eq!(verify(&TokenVerifier::new(&huge, false), &huge), None);
    }

    #[test]
    fn debug_output_does_not_show_the_secret() {
        let debug_text = format!("{:?}", TokenVerifier::new("s3cret", false));
        assert_eq!(debug_text, "TokenVerifier { accepts_shared: true, .. }");
    }
}
