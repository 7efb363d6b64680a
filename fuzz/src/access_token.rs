//! Access tokens and web clients' JWTs. The input's two lines are a secret and a token, and again a header and claims that
//! are signed with the right key. Nothing opens a namespace but what the rules say.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use session_gateway_hub::auth::jwt::JwtKey;
use session_gateway_hub::auth::token::{AccessTokens, MAX_TOKEN_BYTES};
use session_gateway_hub::model::namespace::Namespace;
use sha2::Sha256;

use super::{lines, value};

const KEY: &str = "0123456789abcdef0123456789abcdef";
const NOW: i64 = 1_700_000_000;

pub fn run(input: &str) {
    let [first, second] = lines(input);
    for required in [false, true] {
        let tokens = AccessTokens::new(first, required);
        for token in [second, first] {
            assert_eq!(tokens.verify(token), expected(&tokens, first, token, required), "{first:?} {token:?}");
        }
    }
    assert!(AccessTokens::parse(Some(first), Some(second)).is_err() || !first.trim().is_empty());
    claims(first, second);
    // Nobody signed this one.
    assert_eq!(
        JwtKey::parse(KEY).expect("a valid secret").verify(second, NOW).map(|_| ()),
        signed(second).then_some(())
    );
}

/// The rules of [`AccessTokens`] in other words.
fn expected(tokens: &AccessTokens, secret: &str, token: &str, required: bool) -> Option<Namespace> {
    if secret.trim().is_empty() || token.len() > MAX_TOKEN_BYTES {
        return None;
    }
    let whole = |namespace: &Namespace| {
        let own = tokens.namespace_token(namespace) == token;
        own || (!required && format!("{secret}:{namespace}") == token)
    };
    let default = Namespace::default();
    let of_default = tokens.namespace_token(&default);
    let bare = (!required && token == secret) || of_default.strip_suffix(":default") == Some(token);
    if bare {
        return Some(default);
    }
    let (_, suffix) = token.rsplit_once(':')?;
    Namespace::parse(suffix).filter(whole)
}

/// What is signed is good when its claims are.
fn claims(header: &str, payload: &str) {
    let data = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
    let token = format!("{data}.{}", URL_SAFE_NO_PAD.encode(signature(&data)));
    let Some(verified) = JwtKey::parse(KEY).expect("a valid secret").verify(&token, NOW) else { return };
    let header = value(header).expect("a header");
    let payload = value(payload).expect("claims");
    assert_eq!(header["alg"], "HS256");
    assert_eq!(payload["uid"], verified.claims.uid);
    assert_eq!(payload["ns"], verified.claims.ns.as_str());
    // A NumericDate may have a fraction (RFC 7519 section 2).
    let seconds = |claim: &str| payload[claim].as_f64().map(|seconds| seconds.floor() as i64);
    assert_eq!(seconds("exp"), Some(verified.expires_at));
    assert!(verified.expires_at > NOW && seconds("nbf").is_none_or(|begins| begins <= NOW));
    assert!(JwtKey::parse(&format!("{KEY}x")).expect("a valid secret").verify(&token, NOW).is_none(), "another key");
    assert!(
        JwtKey::parse(KEY).expect("a valid secret").verify(&token, verified.expires_at).is_none(),
        "it has run out"
    );
}

fn signature(data: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(KEY.as_bytes()).expect("any length will do");
    mac.update(data.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Whether a token ends with the right signature: the seeds have such a one, and a fuzzer keeps it or loses it.
fn signed(token: &str) -> bool {
    let Some((data, end)) = token.rsplit_once('.') else { return false };
    let right = URL_SAFE_NO_PAD.decode(end).is_ok_and(|end| end == signature(data));
    assert!(!right || token.len() <= MAX_TOKEN_BYTES);
    right
}
