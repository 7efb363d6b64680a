//! Access tokens and the JWTs of web clients. The two lines of the input are used as a secret and a token, and as the header
//! and the claims of a JWT that is signed with the right key. A token must be valid for a namespace exactly by the rules.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use session_gateway_hub::auth::jwt::JwtKey;
use session_gateway_hub::auth::token::MAX_TOKEN_BYTES;
use session_gateway_hub::auth::token::TokenVerifier;
use session_gateway_hub::model::namespace::Namespace;
use sha2::Sha256;

use super::{lines, value};

const KEY: &str = "0123456789abcdef0123456789abcdef";
const NOW: i64 = 1_700_000_000;

pub fn run(input: &str) {
    let [first, second] = lines(input);
    for required in [false, true] {
        let tokens = TokenVerifier::new(first, required);
        for token in [second, first] {
            let verified = tokens.verify(token).map(|token| token.namespace);
            assert_eq!(verified, expected(&tokens, first, token, required), "{first:?} {token:?}");
        }
    }
    assert!(TokenVerifier::parse(Some(first), Some(second), Some(second)).is_err() || !first.trim().is_empty());
    check_claims(first, second);
    // The second line as a JWT: valid only if it has the right signature.
    assert_eq!(
        JwtKey::parse(KEY).expect("a valid secret").verify(second, NOW).map(|_| ()),
        is_signed(second).then_some(())
    );
}

/// A second implementation of [`TokenVerifier::verify`].
fn expected(tokens: &TokenVerifier, secret: &str, token: &str, required: bool) -> Option<Namespace> {
    if secret.trim().is_empty() || token.len() > MAX_TOKEN_BYTES {
        return None;
    }
    let is_valid_for = |namespace: &Namespace| {
        let number = token.split_once('.').and_then(|(number, _)| number.parse().ok()).unwrap_or(0);
        let is_namespace_token = [0, number].iter().any(|number| tokens.namespace_token(namespace, *number) == token);
        is_namespace_token || (!required && format!("{secret}:{namespace}") == token)
    };
    let default = Namespace::default();
    let default_token = tokens.namespace_token(&default, 0);
    let has_no_suffix = (!required && token == secret) || default_token.strip_suffix(":default") == Some(token);
    if has_no_suffix {
        return Some(default);
    }
    let (_, suffix) = token.rsplit_once(':')?;
    Namespace::parse(suffix).filter(is_valid_for)
}

/// Signs a header and claims, and checks that the JWT is accepted only with valid ones.
fn check_claims(header: &str, payload: &str) {
    let data = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
    let token = format!("{data}.{}", URL_SAFE_NO_PAD.encode(signature(&data)));
    let Some((claims, expires_at)) = JwtKey::parse(KEY).expect("a valid secret").verify(&token, NOW) else { return };
    let header = value(header).expect("a header");
    let payload = value(payload).expect("claims");
    assert_eq!(header["alg"], "HS256");
    assert_eq!(payload["uid"], claims.uid);
    assert_eq!(payload["ns"], claims.ns.as_str());
    // A NumericDate may have a fraction (RFC 7519 section 2).
    let seconds = |claim: &str| payload[claim].as_f64().map(|seconds| seconds.floor() as i64);
    assert_eq!(seconds("exp"), Some(expires_at));
    assert!(expires_at > NOW && seconds("nbf").is_none_or(|begins| begins <= NOW));
    assert!(JwtKey::parse(&format!("{KEY}x")).expect("a valid secret").verify(&token, NOW).is_none(), "another key");
    assert!(JwtKey::parse(KEY).expect("a valid secret").verify(&token, expires_at).is_none(), "it has expired");
}

fn signature(data: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(KEY.as_bytes()).expect("a key of any length");
    mac.update(data.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Whether a token has the right signature, as one of the seeds does.
fn is_signed(token: &str) -> bool {
    let Some((data, end)) = token.rsplit_once('.') else { return false };
    let is_signed = URL_SAFE_NO_PAD.decode(end).is_ok_and(|end| end == signature(data));
    assert!(!is_signed || token.len() <= MAX_TOKEN_BYTES);
    is_signed
}
