//! Access tokens: the shared secret and the namespaces' own tokens, by which CLIs, scripts and the log-in of the web
//! client prove themselves.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

use crate::model::keyword::parse_bool;
use crate::model::namespace::Namespace;

/// The longest token that is looked at, in bytes: whoever asks without a good one must not cost much.
pub const MAX_TOKEN_BYTES: usize = 1024;
/// The longest secret that a hub may have, in bytes: with any namespace it makes a token that is looked at.
pub const MAX_SECRET_BYTES: usize = MAX_TOKEN_BYTES - ":".len() - Namespace::MAX_LEN;

/// Checks access tokens against the hub's secret, `CLI_API_TOKEN`.
///
/// A token is `<SECRET>`, which stands for the namespace `default`, or `<SECRET>:<NAMESPACE>`. `<SECRET>` is either
/// the hub's secret, which opens every namespace, or the namespace's own token, which opens that one alone:
/// `base64url(HMAC-SHA256(CLI_API_TOKEN, "namespace:" + NAMESPACE))`, without padding.
///
/// The hub's secret may contain colons. A token is first compared whole, then split at its last colon. The order
/// cannot change the outcome: no token equals the secret and is also the secret with a suffix.
#[derive(Clone)]
pub struct AccessTokens {
    digest: [u8; 32],
    /// Keyed with the secret, ready for a message. `None` when the secret is empty.
    mac: Option<Hmac<Sha256>>,
    shared: bool,
}

impl AccessTokens {
    /// Reads the configured secret, `CLI_API_TOKEN`, and `REQUIRE_NAMESPACE_TOKENS`; the error says what is wrong.
    pub fn parse(secret: Option<&str>, require_namespace_tokens: Option<&str>) -> Result<Self, String> {
        let secret = secret.filter(|secret| !secret.trim().is_empty()).ok_or(
            "The secret CLI_API_TOKEN is not set. Set it with `npm run wrangler -- secret put CLI_API_TOKEN`, or in .dev.vars for a local hub.",
        )?;
        if secret.len() > MAX_SECRET_BYTES {
            return Err(format!("The secret CLI_API_TOKEN may have at most {MAX_SECRET_BYTES} bytes."));
        }
        let required = parse_bool("REQUIRE_NAMESPACE_TOKENS", require_namespace_tokens)?;
        Ok(Self::new(secret, required))
    }

    /// Takes the hub's secret. One that is empty or only white space verifies nothing.
    ///
    /// With `require_namespace_tokens` the secret itself is refused, and only namespaces' own tokens are good.
    pub fn new(cli_api_token: &str, require_namespace_tokens: bool) -> Self {
        let usable = !cli_api_token.trim().is_empty();
        let keyed = || Hmac::new_from_slice(cli_api_token.as_bytes()).ok();
        Self {
            digest: Sha256::digest(cli_api_token).into(),
            mac: usable.then(keyed).flatten(),
            shared: !require_namespace_tokens,
        }
    }

    /// The namespace that `token` opens, or `None` when the token is wrong. Nothing tells why: whoever guesses must
    /// not learn which part was right.
    pub fn verify(&self, token: &str) -> Option<Namespace> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let default = Namespace::default();
        if self.opens(token, &default) {
            return Some(default);
        }
        let (secret, suffix) = token.rsplit_once(':')?;
        let namespace = Namespace::parse(suffix)?;
        self.opens(secret, &namespace).then_some(namespace)
    }

    /// The token of one namespace, whole: `<base64url of the HMAC>:<NAMESPACE>`. Made from an empty secret it is
    /// worth nothing: [`AccessTokens::verify`] refuses it.
    pub fn namespace_token(&self, namespace: &Namespace) -> String {
        let own = self.own_secret(namespace).unwrap_or_default();
        format!("{own}:{namespace}")
    }

    fn opens(&self, secret: &str, namespace: &Namespace) -> bool {
        let Some(own) = self.own_secret(namespace) else {
            return false;
        };
        // Digests have one length, so comparing them takes one time, whatever was presented.
        let presented = Sha256::digest(secret);
        let is_shared = presented.ct_eq(&self.digest) & Choice::from(u8::from(self.shared));
        let is_own = presented.ct_eq(&Sha256::digest(own));
        (is_shared | is_own).into()
    }

    fn own_secret(&self, namespace: &Namespace) -> Option<String> {
        let mut mac = self.mac.clone()?;
        mac.update(b"namespace:");
        mac.update(namespace.as_str().as_bytes());
        Some(URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for AccessTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessTokens").field("shared", &self.shared).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Made with another implementation:
    /// `crypto.createHmac('sha256', 's3cret').update('namespace:' + ns).digest('base64url')`.
    const TEAM: &str = "bQRx2_PD4XdqgVEhF-BUtXxtDvHx7RJS5WcqRf7pk3k";
    const DEFAULT: &str = "gNaeTFGclY-c0n_Pi4AgsvVuVelXfNK1d6mt6y7pjck";

    fn namespace(name: &str) -> Namespace {
        Namespace::parse(name).unwrap()
    }

    fn opened(tokens: &AccessTokens, token: &str) -> Option<String> {
        tokens.verify(token).map(|ns| ns.to_string())
    }

    #[test]
    fn the_shared_secret_opens_the_default_namespace_or_the_one_in_its_suffix() {
        let tokens = AccessTokens::new("s3cret", false);
        assert_eq!(opened(&tokens, "s3cret").as_deref(), Some("default"));
        assert_eq!(opened(&tokens, "s3cret:default").as_deref(), Some("default"));
        assert_eq!(opened(&tokens, "s3cret:team-7").as_deref(), Some("team-7"));
    }

    #[test]
    fn a_token_that_is_not_exactly_right_opens_nothing() {
        let tokens = AccessTokens::new("s3cret", false);
        let table = [
            "",
            ":",
            ":team-7",
            "S3cret",
            "s3cre",
            "s3cret ",
            " s3cret",
            "s3cret\n",
            "s3cret:",
            "s3cret:team 7",
            "s3cret:team/7",
            "s3cret::",
            "s3cret:a:b",
            "wrong",
            "wrong:team-7",
            "s3cret:\u{e9}",
            "team-7:s3cret",
        ];
        for token in table {
            assert_eq!(opened(&tokens, token), None, "{token:?}");
        }
        let endless = format!("s3cret:{}", "x".repeat(65));
        assert_eq!(opened(&tokens, &endless), None);
    }

    #[test]
    fn a_secret_with_colons_is_compared_whole_before_a_suffix_is_looked_for() {
        let tokens = AccessTokens::new("a:b:c", false);
        assert_eq!(opened(&tokens, "a:b:c").as_deref(), Some("default"));
        assert_eq!(opened(&tokens, "a:b:c:team").as_deref(), Some("team"));
        assert_eq!(opened(&tokens, "a:b"), None);
        assert_eq!(opened(&tokens, "a:b:team"), None);
        let tokens = AccessTokens::new("a:", false);
        assert_eq!(opened(&tokens, "a:").as_deref(), Some("default"));
        assert_eq!(opened(&tokens, "a::team").as_deref(), Some("team"));
        assert_eq!(opened(&tokens, "a:team"), None);
    }

    #[test]
    fn an_empty_secret_opens_nothing_not_even_with_a_token_derived_from_it() {
        for secret in ["", " ", "\n"] {
            let tokens = AccessTokens::new(secret, false);
            let derived = tokens.namespace_token(&Namespace::default());
            let bare = format!("{secret}:default");
            for token in ["", ":", ":default", secret, bare.as_str(), derived.as_str()] {
                assert_eq!(opened(&tokens, token), None, "{secret:?} and {token:?}");
            }
        }
    }

    #[test]
    fn a_namespace_token_is_the_one_that_another_implementation_computes() {
        let tokens = AccessTokens::new("s3cret", true);
        assert_eq!(tokens.namespace_token(&namespace("team-7")), format!("{TEAM}:team-7"));
        assert_eq!(tokens.namespace_token(&Namespace::default()), format!("{DEFAULT}:default"));
    }

    #[test]
    fn a_namespace_token_opens_its_own_namespace_and_no_other() {
        for required in [false, true] {
            let tokens = AccessTokens::new("s3cret", required);
            assert_eq!(opened(&tokens, &format!("{TEAM}:team-7")).as_deref(), Some("team-7"));
            for other in ["team-8", "Team-7", "default", "team-7.", ""] {
                assert_eq!(opened(&tokens, &format!("{TEAM}:{other}")), None, "{other:?}");
            }
            assert_eq!(opened(&tokens, TEAM), None, "without a suffix it is for default");
            assert_eq!(opened(&tokens, &format!("{TEAM}=:team-7")), None, "padded");
        }
    }

    #[test]
    fn the_default_namespace_needs_no_suffix_on_its_own_token_either() {
        let tokens = AccessTokens::new("s3cret", true);
        assert_eq!(opened(&tokens, DEFAULT).as_deref(), Some("default"));
        assert_eq!(opened(&tokens, &format!("{DEFAULT}:default")).as_deref(), Some("default"));
    }

    #[test]
    fn a_hub_that_requires_namespace_tokens_refuses_the_shared_secret() {
        let tokens = AccessTokens::new("s3cret", true);
        for token in ["s3cret", "s3cret:default", "s3cret:team-7"] {
            assert_eq!(opened(&tokens, token), None, "{token}");
        }
    }

    #[test]
    fn a_namespace_token_of_another_hub_is_worth_nothing_here() {
        let theirs = AccessTokens::new("other", false).namespace_token(&namespace("team-7"));
        assert_eq!(opened(&AccessTokens::new("s3cret", false), &theirs), None);
    }

    #[test]
    fn a_hub_is_not_run_with_a_secret_or_a_rule_that_is_none() {
        let opens =
            |required| AccessTokens::parse(Some("s3cret"), required).map(|tokens| opened(&tokens, "s3cret").is_some());
        assert_eq!([opens(None), opens(Some("false")), opens(Some("True"))], [Ok(true), Ok(true), Ok(false)]);
        for word in ["yes", "1", " true", "0"] {
            assert!(opens(Some(word)).unwrap_err().contains("REQUIRE_NAMESPACE_TOKENS"), "{word}");
        }
        let long = "x".repeat(MAX_SECRET_BYTES + 1);
        for secret in [None, Some(""), Some(" \n"), Some(long.as_str())] {
            let error = AccessTokens::parse(secret, None).unwrap_err();
            assert!(error.contains("CLI_API_TOKEN") && !error.contains("xxx"), "{error}");
        }
    }

    #[test]
    fn a_token_above_its_limit_opens_nothing() {
        let longest = "x".repeat(MAX_SECRET_BYTES);
        let name = "n".repeat(Namespace::MAX_LEN);
        let token = format!("{longest}:{name}");
        assert_eq!(token.len(), MAX_TOKEN_BYTES);
        assert_eq!(opened(&AccessTokens::new(&longest, false), &token), Some(name));
        let huge = "x".repeat(MAX_TOKEN_BYTES + 1);
        assert_eq!(opened(&AccessTokens::new(&huge, false), &huge), None);
    }

    #[test]
    fn debug_output_does_not_show_the_secret() {
        let shown = format!("{:?}", AccessTokens::new("s3cret", false));
        assert_eq!(shown, "AccessTokens { shared: true, .. }");
    }

    proptest! {
        #[test]
        fn tokens_of_any_secret_and_namespace_open_that_namespace(
            secret in r"[!-~]{1,20}",
            name in "[A-Za-z0-9._-]{1,64}",
            required in any::<bool>(),
        ) {
            let tokens = AccessTokens::new(&secret, required);
            let own = tokens.namespace_token(&namespace(&name));
            prop_assert_eq!(opened(&tokens, &own), Some(name.clone()));
            let shared = opened(&tokens, &format!("{secret}:{name}"));
            prop_assert_eq!(shared, (!required).then_some(name));
        }

        #[test]
        fn no_other_text_opens_anything(token in any::<String>()) {
            prop_assume!(token != "s3cret" && !token.starts_with("s3cret:"));
            prop_assert_eq!(AccessTokens::new("s3cret", false).verify(&token), None);
        }
    }
}
