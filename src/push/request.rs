//! The HTTP request that delivers a message to a subscriber (RFC 8030), with an encrypted body (RFC 8291).

use std::ops::Range;
use std::time::Duration;

use http::header::{AUTHORIZATION, InvalidHeaderValue};
use http::uri::InvalidUri;
use http::{HeaderName, HeaderValue, Request, Uri};
use p256::PublicKey;
use thiserror::Error;
use web_push_native::{Auth, WebPushBuilder};

use super::endpoint::Endpoint;
use super::from_any_base64;

/// The largest plaintext: a body of 4,096 bytes minus header, delimiter and tag (RFC 8291 section 4).
pub const MAX_MESSAGE_BYTES: usize = 3993;

const RECORD_SIZE: u32 = 4096;
/// The position of the record size in the body, in bytes (RFC 8188 section 2.1).
const RECORD_SIZE_FIELD: Range<usize> = 16..20;

const AUTH_BYTES: usize = 16;

/// A message replaces the undelivered message of the same topic (RFC 8030 section 5.4).
const TOPIC: HeaderName = HeaderName::from_static("topic");
/// RFC 8030 section 5.3.
const URGENCY: HeaderName = HeaderName::from_static("urgency");

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    public: PublicKey,
    auth: [u8; AUTH_BYTES],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidKey {
    /// `p256dh` is not an uncompressed point on the curve.
    P256dh,
    /// `auth` does not have 16 bytes.
    Auth,
}

impl Keys {
    /// Parses the keys that a browser exports: base64 of an uncompressed P-256 point, and of 16 bytes. Browsers export
    /// base64url, but a page that calls `btoa` sends the standard alphabet.
    pub fn parse(p256dh: &str, auth: &str) -> Result<Self, InvalidKey> {
        let point = from_any_base64(p256dh).filter(|point| point.len() == 65).ok_or(InvalidKey::P256dh)?;
        let public = PublicKey::from_sec1_bytes(&point).map_err(|_| InvalidKey::P256dh)?;
        let auth = from_any_base64(auth).and_then(|bytes| bytes.try_into().ok()).ok_or(InvalidKey::Auth)?;
        Ok(Self { public, auth })
    }
}

#[derive(Debug)]
pub struct PushMessage<'a> {
    pub payload: String,
    /// How long the push service stores an undelivered message.
    pub ttl: Duration,
    pub topic: &'a str,
    pub urgency: &'a str,
    pub authorization: &'a str,
}

#[derive(Debug, Error)]
pub enum BuildError {
    #[error("The push message has {0} bytes, but at most {MAX_MESSAGE_BYTES} are allowed.")]
    TooLong(usize),
    #[error("The endpoint is malformed: {0}.")]
    Endpoint(#[from] InvalidUri),
    #[error("A header of the push is malformed: {0}.")]
    Header(#[from] InvalidHeaderValue),
    #[error("The message could not be encrypted: {0}.")]
    Encryption(web_push_native::Error),
}

/// Builds the request that delivers `message`, encrypted with a random salt and key pair.
///
/// # Panics
///
/// `web-push-native` panics when the platform has no random source: the caller must check the random source first.
pub fn build(endpoint: &Endpoint, keys: &Keys, message: PushMessage<'_>) -> Result<Request<Vec<u8>>, BuildError> {
    if message.payload.len() > MAX_MESSAGE_BYTES {
        return Err(BuildError::TooLong(message.payload.len()));
    }
    let builder = WebPushBuilder::new(Uri::try_from(endpoint.url())?, keys.public, Auth::from(keys.auth));
    let request = builder.with_valid_duration(message.ttl).build(message.payload);
    let mut request = request.map_err(BuildError::Encryption)?;
    // The builder sets the record's length; RFC 8291 section 4 requires more. The field is neither encrypted nor authenticated.
    if let Some(field) = request.body_mut().get_mut(RECORD_SIZE_FIELD) {
        field.copy_from_slice(&RECORD_SIZE.to_be_bytes());
    }
    let headers = request.headers_mut();
    headers.insert(TOPIC, HeaderValue::try_from(message.topic)?);
    headers.insert(URGENCY, HeaderValue::try_from(message.urgency)?);
    headers.insert(AUTHORIZATION, HeaderValue::try_from(message.authorization)?);
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::{from_base64url, to_base64url};
    use p256::SecretKey;
    use p256::elliptic_curve::sec1::ToEncodedPoint;
    use web_push_native::decrypt;

    // RFC 8291 appendix A.
    const PLAINTEXT: &str = "When I grow up, I want to be a watermelon";
    const RECEIVER_SECRET: &str = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94";
    const P256DH: &str = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";
    const BODY: &str = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIg\
        Dll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN";

    fn keys() -> Keys {
        Keys::parse(P256DH, AUTH).unwrap()
    }

    fn message(payload: &str) -> PushMessage<'_> {
        let (topic, urgency, authorization) = ("topic-1", "high", "vapid t=token, k=key");
        PushMessage { payload: payload.to_owned(), ttl: Duration::from_secs(60), topic, urgency, authorization }
    }

    fn body(payload: &str) -> Vec<u8> {
        let endpoint = Endpoint::parse("https://push.com/x", false).unwrap();
        build(&endpoint, &keys(), message(payload)).unwrap().into_body()
    }

    /// Decrypts a body with the private key of the RFC's subscriber.
    fn decrypt_body(body: Vec<u8>) -> String {
        let secret = SecretKey::from_slice(&from_base64url(RECEIVER_SECRET).unwrap()).unwrap();
        let auth: [u8; AUTH_BYTES] = from_base64url(AUTH).unwrap().try_into().unwrap();
        String::from_utf8(decrypt(body, &secret, &Auth::from(auth)).unwrap()).unwrap()
    }

    #[test]
    fn the_subscriber_of_the_rfc_decrypts_its_example_and_a_built_message() {
        assert_eq!(decrypt_body(from_base64url(BODY).unwrap()), PLAINTEXT);
        assert_eq!(decrypt_body(body(PLAINTEXT)), PLAINTEXT);
    }

    #[test]
    fn each_message_has_a_random_salt_a_random_key_and_a_record_size_above_its_length() {
        let (one, other) = (body(PLAINTEXT), body(PLAINTEXT));
        assert_ne!(one[..16], other[..16], "the salt");
        assert_ne!(one[21..86], other[21..86], "the public key");
        let record_bytes = one.len() - 86;
        assert_eq!(record_bytes, PLAINTEXT.len() + 17);
        assert_eq!(one[RECORD_SIZE_FIELD], 4096_u32.to_be_bytes());
    }

    #[test]
    fn a_request_has_the_headers_of_rfc_8030_and_the_unchanged_endpoint() {
        for url in [
            "https://fcm.googleapis.com/fcm/send/abc:APA91b",
            "https://updates.push.services.mozilla.com/wpush/v2/gAAAA?x=1&y=[]!$()*+,;",
            "https://web.push.apple.com:443/QG",
            "https://xn--bcher-kva.com/%41",
        ] {
            let endpoint = Endpoint::parse(url, false).unwrap();
            let request = build(&endpoint, &keys(), message(PLAINTEXT)).unwrap();
            assert_eq!((request.method().as_str(), request.uri().to_string().as_str()), ("POST", url));
            let header = |name| request.headers()[name].to_str().unwrap();
            assert_eq!([header("ttl"), header("topic"), header("urgency")], ["60", "topic-1", "high"]);
            assert_eq!(header("authorization"), "vapid t=token, k=key");
            assert_eq!(header("content-encoding"), "aes128gcm");
            assert_eq!(header("content-type"), "application/octet-stream");
        }
    }

    #[test]
    fn the_largest_message_fills_4096_bytes_and_a_larger_one_is_rejected() {
        let largest = "x".repeat(MAX_MESSAGE_BYTES);
        let body = body(&largest);
        assert_eq!(body.len(), 4096);
        assert_eq!(decrypt_body(body), largest);
        let endpoint = Endpoint::parse("https://push.com/x", false).unwrap();
        let result = build(&endpoint, &keys(), message(&"x".repeat(MAX_MESSAGE_BYTES + 1)));
        assert!(matches!(result, Err(BuildError::TooLong(3994))));
    }

    #[test]
    fn keys_are_base64_of_either_alphabet_and_padding_is_optional() {
        assert_eq!(Keys::parse(&format!("{P256DH}="), &format!("{AUTH}==")), Ok(keys()));
        let standard = |key: &str| key.replace('-', "+").replace('_', "/");
        assert_eq!(Keys::parse(&format!("{}=", standard(P256DH)), &standard(AUTH)), Ok(keys()));
        let off_the_curve = to_base64url(&[&[4][..], &[1; 64]].concat());
        let compressed = to_base64url(keys().public.to_encoded_point(true).as_bytes());
        let infinity = to_base64url(&[0]);
        for invalid in ["", "AA", "!", &off_the_curve, &compressed, &infinity, P256DH.get(1..).unwrap(), AUTH] {
            assert_eq!(Keys::parse(invalid, AUTH), Err(InvalidKey::P256dh), "{invalid}");
        }
        for invalid in ["", "AA", "!", AUTH.get(2..).unwrap(), P256DH, "BTBZMqHH6r4Tts7J aSIgg"] {
            assert_eq!(Keys::parse(P256DH, invalid), Err(InvalidKey::Auth), "{invalid}");
        }
    }
}
