//! Access tokens: the shared secret and the namespace tokens. CLIs, scripts and the login of the web client use them.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::hmac_sha256;
use crate::model::keyword::parse_bool;
use crate::model::namespace::Namespace;

/// The longest token that is verified, in bytes: limits the cost of a request without a valid token.
pub const MAX_TOKEN_BYTES: usize = 1024;

/// The longest secret whose tokens are within [`MAX_TOKEN_BYTES`] for every namespace.
const MAX_SECRET_BYTES: usize = MAX_TOKEN_BYTES - ":".len() - Namespace::MAX_LEN;

pub const DEVICE_TOKEN_PREFIX: &str = "sgd_";
/// The length of the token of a device: the prefix, and 32 bytes in base64url.
const DEVICE_TOKEN_LEN: usize = DEVICE_TOKEN_PREFIX.len() + 43;

/// Whether a token has the form of a device token. Only the database knows whether such a token is valid.
pub fn is_device_token(token: &str) -> bool {
    token.len() == DEVICE_TOKEN_LEN && token.starts_with(DEVICE_TOKEN_PREFIX)
}

/// What a valid token was made from. Revoking the credential revokes its tokens. The worker sends the credential to the object in a
/// header, as text: `shared`, the number of the generation, or the id of the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    Shared,
    Generation(u32),
    /// The id of a device.
    Device(Arc<str>),
}

impl Credential {
    const SHARED: &'static str = "shared";

    /// Parses the text of a credential; `None` if it is empty.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" => None,
            Self::SHARED => Some(Self::Shared),
            text => Some(text.parse().map_or_else(|_| Self::Device(text.into()), Self::Generation)),
        }
    }

    /// Returns the id of the device; `None` if the token belongs to no device.
    pub fn device(&self) -> Option<&str> {
        match self {
            Self::Device(id) => Some(id),
            Self::Shared | Self::Generation(_) => None,
        }
    }
}

impl fmt::Display for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared => f.write_str(Self::SHARED),
            Self::Generation(generation) => generation.fmt(f),
            Self::Device(id) => f.write_str(id),
        }
    }
}

/// The id of an access secret, which does not reveal the secret. The worker sends it to the object in a header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretId(pub String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedToken {
    pub namespace: Namespace,
    /// Unix milliseconds; `None` for an access token, which does not expire.
    pub expires_at: Option<u64>,
    pub credential: Credential,
    /// The secret of the access token. For a JWT: the secret of the access token with which the client signed in. `None` for a device.
    pub secret: Option<SecretId>,
}

impl VerifiedToken {
    /// Returns the text of the credential, and a space and the id of the secret if there is one.
    pub fn header(&self) -> String {
        let mut text = self.credential.to_string();
        if let Some(SecretId(secret)) = &self.secret {
            text.extend([" ", secret]);
        }
        text
    }
}

/// Verifies access tokens against the hub's secret, `CLI_API_TOKEN`, and its previous secret, `CLI_API_TOKEN_PREVIOUS`, if set.
///
/// A token is `<SECRET>:<NAMESPACE>`, or `<SECRET>` for the namespace `default`. `<SECRET>` is either the shared secret
/// `CLI_API_TOKEN`, which is valid for every namespace, or the namespace's own secret:
/// `base64url(HMAC-SHA256(CLI_API_TOKEN, "namespace:" + NAMESPACE))`, without padding. After the tokens of the namespace were revoked
/// `N` times, it is `N.base64url(HMAC-SHA256(CLI_API_TOKEN, "namespace:" + NAMESPACE + ":" + N))`.
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
    id: SecretId,
    digest: [u8; 32],
    /// `None` when the secret is blank.
    key: Option<String>,
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
        // Whether `text` is `<secret>:<namespace>`.
        let is_token_of = |text: &str, secret: &str| {
            text.strip_prefix(secret)
                .and_then(|suffix| suffix.strip_prefix(':'))
                .is_some_and(|namespace| Namespace::parse(namespace).is_some())
        };
        if previous.is_some_and(|previous| is_token_of(secret, previous) || is_token_of(previous, secret)) {
            return Err(
                "The secrets CLI_API_TOKEN and CLI_API_TOKEN_PREVIOUS differ only by an appended `:NAMESPACE`, so tokens \
                        would be ambiguous. Set another CLI_API_TOKEN."
                    .into(),
            );
        }
        let required = parse_bool("REQUIRE_NAMESPACE_TOKENS", require_namespace_tokens)?;
        Ok(Self { previous: previous.map(SharedSecret::new), ..Self::new(secret, required) })
    }

    /// With a blank secret no token is valid, with `require_namespace_tokens` only namespace tokens.
    pub fn new(cli_api_token: &str, require_namespace_tokens: bool) -> Self {
        Self { current: SharedSecret::new(cli_api_token), previous: None, accepts_shared: !require_namespace_tokens }
    }

    /// Returns the contents of a token; `None` if it is invalid, without a reason, so that a guess reveals nothing. Does not check
    /// that the generation of a namespace token is the current one.
    pub fn verify(&self, token: &str) -> Option<VerifiedToken> {
        self.verify_any(token).filter(|token| self.accepts_shared || token.credential != Credential::Shared)
    }

    /// Returns the namespace of a token with the shared secret, which only the operator knows, even if `REQUIRE_NAMESPACE_TOKENS` is set.
    pub fn verify_operator(&self, token: &str) -> Option<Namespace> {
        self.verify_any(token).filter(|token| token.credential == Credential::Shared).map(|token| token.namespace)
    }

    fn verify_any(&self, token: &str) -> Option<VerifiedToken> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        self.match_secret(Namespace::default(), token).or_else(|| {
            let (secret, suffix) = token.rsplit_once(':')?;
            self.match_secret(Namespace::parse(suffix)?, secret)
        })
    }

    /// Whether tokens of a secret are valid now.
    pub fn accepts_secret(&self, id: &str) -> bool {
        self.secrets().any(|secret| secret.id.0 == id)
    }

    /// Returns the id of the accepted secret that was set first.
    pub fn oldest_secret(&self) -> &SecretId {
        &self.previous.as_ref().unwrap_or(&self.current).id
    }

    fn secrets(&self) -> impl Iterator<Item = &SharedSecret> {
        [Some(&self.current), self.previous.as_ref()].into_iter().flatten()
    }

    /// Returns the token of a namespace, `<base64url of the HMAC>:<NAMESPACE>`.
    pub fn namespace_token(&self, namespace: &Namespace, generation: u32) -> String {
        let secret = self.current.derive_secret(namespace, generation).unwrap_or_default();
        format!("{secret}:{namespace}")
    }

    /// Compares the secret of a token with all accepted secrets, so that the time does not depend on which one matches.
    fn match_secret(&self, namespace: Namespace, secret: &str) -> Option<VerifiedToken> {
        // Digests of equal length are compared in constant time; the secrets may differ in length.
        let digest = Sha256::digest(secret);
        let generation = generation_of(secret);
        let compare = |shared: &SharedSecret| {
            let namespace_secret = shared.derive_secret(&namespace, generation)?;
            Some((digest.ct_eq(&shared.digest), digest.ct_eq(&Sha256::digest(namespace_secret)), shared.id.clone()))
        };
        let compared: Vec<_> = self.secrets().filter_map(compare).collect();
        let (credential, secret) = compared.into_iter().find_map(|(is_shared, is_of_namespace, id)| {
            let credential = if is_shared.into() { Credential::Shared } else { Credential::Generation(generation) };
            bool::from(is_shared | is_of_namespace).then_some((credential, id))
        })?;
        Some(VerifiedToken { namespace, expires_at: None, credential, secret: Some(secret) })
    }
}

impl SharedSecret {
    fn new(secret: &str) -> Self {
        let id = SecretId(URL_SAFE_NO_PAD.encode(hmac_sha256(secret.as_bytes(), &[b"id"])));
        let key = (!secret.trim().is_empty()).then(|| secret.to_owned());
        Self { id, digest: Sha256::digest(secret).into(), key }
    }

    /// Returns the namespace's own secret of a generation; `None` if the shared secret is blank.
    fn derive_secret(&self, namespace: &Namespace, generation: u32) -> Option<String> {
        let (suffix, prefix) = match generation {
            0 => (String::new(), String::new()),
            number => (format!(":{number}"), format!("{number}.")),
        };
        let key = self.key.as_ref()?.as_bytes();
        let mac = hmac_sha256(key, &[b"namespace:", namespace.as_str().as_bytes(), suffix.as_bytes()]);
        Some(prefix + &URL_SAFE_NO_PAD.encode(mac))
    }
}

/// Returns the generation that a namespace's secret names; 0 if it names none.
fn generation_of(secret: &str) -> u32 {
    let number = secret.split_once('.').and_then(|(number, _)| number.parse().ok());
    number.filter(|_| !secret.starts_with(['0', '+'])).unwrap_or(0)
}

impl fmt::Debug for TokenVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenVerifier").field("accepts_shared", &self.accepts_shared).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with `node:crypto`: `crypto.createHmac('sha256', 's3cret').update('namespace:' + ns).digest('base64url')`.
    const TEAM: &str = "bQRx2_PD4XdqgVEhF-BUtXxtDvHx7RJS5WcqRf7pk3k";
    const DEFAULT: &str = "gNaeTFGclY-c0n_Pi4AgsvVuVelXfNK1d6mt6y7pjck";

    /// `'2.' + crypto.createHmac('sha256', 's3cret').update('namespace:team-7:2').digest('base64url')`.
    const TEAM_2: &str = "2.mtLJelEXUwhNSw9omBOclo9NKb0_UBnYt4OO5-6pQWw";

    fn namespace(name: &str) -> Namespace {
        Namespace::parse(name).unwrap()
    }

    fn verify(tokens: &TokenVerifier, token: &str) -> Option<String> {
        tokens.verify(token).map(|token| token.namespace.to_string())
    }

    #[test]
    fn a_namespace_token_agrees_with_another_implementation() {
        let tokens = TokenVerifier::new("s3cret", true);
        assert_eq!(tokens.namespace_token(&namespace("team-7"), 0), format!("{TEAM}:team-7"));
        assert_eq!(tokens.namespace_token(&Namespace::default(), 0), format!("{DEFAULT}:default"));
        assert_eq!(tokens.namespace_token(&namespace("team-7"), 2), format!("{TEAM_2}:team-7"));
    }

    #[test]
    fn a_namespace_token_names_its_generation_and_cannot_change_it() {
        let tokens = TokenVerifier::new("s3cret", true);
        let credential = |token: &str| tokens.verify(token).map(|token| token.credential);
        assert_eq!(credential(&format!("{TEAM}:team-7")), Some(Credential::Generation(0)));
        assert_eq!(credential(&format!("{TEAM_2}:team-7")), Some(Credential::Generation(2)));
        let mac = TEAM_2.strip_prefix("2.").unwrap();
        for changed in ["", "1.", "3.", "02.", "+2.", "2.2.", "0.", "-2.", " 2.", "4294967296."] {
            assert_eq!(credential(&format!("{changed}{mac}:team-7")), None, "{changed}");
            assert_eq!(credential(&format!("{changed}{TEAM}:team-7")).is_some(), changed.is_empty(), "{changed}");
        }
        assert_eq!(credential(&format!("{TEAM_2}:team-8")), None);
    }

    #[test]
    fn the_shared_secret_identifies_the_operator_also_if_namespace_tokens_are_required() {
        for required in [false, true] {
            let tokens = TokenVerifier::new("s3cret", required);
            assert_eq!(tokens.verify("s3cret:team-7").is_some(), !required);
            assert_eq!(tokens.verify_operator("s3cret:team-7"), Some(namespace("team-7")));
            for token in [&format!("{TEAM}:team-7"), "", "s3cret:", "s3cret:te am", "other:team-7", "sgd_x"] {
                assert_eq!(tokens.verify_operator(token), None, "{token}");
            }
        }
    }

    #[test]
    fn the_text_of_a_credential_is_read_back() {
        for credential in [Credential::Shared, Credential::Generation(7), Credential::Device("0190-a".into())] {
            assert_eq!(Credential::parse(&credential.to_string()), Some(credential));
        }
        assert_eq!(Credential::parse(""), None);
    }

    #[test]
    fn invalid_settings_are_rejected() {
        let accepts_shared = |required| {
            TokenVerifier::parse(Some("s3cret"), None, required).map(|tokens| verify(&tokens, "s3cret").is_some())
        };
        let settings = [None, Some("false"), Some("True")];
        assert_eq!(settings.map(accepts_shared), [Ok(true), Ok(true), Ok(false)]);
        for value in ["", "yes", "1", " true", "0"] {
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
        assert_ne!(tokens.namespace_token(&namespace("team-7"), 0), own, "new tokens are of the new secret");

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
    fn a_token_has_the_id_of_its_secret_and_only_ids_of_the_two_secrets_are_accepted() {
        let parse = |secret, previous| TokenVerifier::parse(Some(secret), previous, None).unwrap();
        let (old, both, new) = (parse("s3cret", None), parse("new", Some("s3cret")), parse("new", None));
        let secret = |tokens: &TokenVerifier, token: &str| tokens.verify(token).unwrap().secret.unwrap();
        let (first, second) = (secret(&old, "s3cret:team-7"), secret(&new, "new"));
        assert_ne!(first, second);
        for token in ["s3cret", "s3cret:team-8", &format!("{TEAM}:team-7"), &format!("{TEAM_2}:team-7")] {
            assert_eq!(secret(&both, token), first, "{token}");
        }
        assert_eq!(secret(&both, &both.namespace_token(&namespace("team-7"), 3)), second);
        let accepted = |tokens: &TokenVerifier| [&first, &second].map(|id| tokens.accepts_secret(&id.0));
        assert_eq!([&old, &both, &new].map(accepted), [[true, false], [true, true], [false, true]]);
        assert_eq!([&old, &both, &new].map(TokenVerifier::oldest_secret), [&first, &first, &second]);
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
