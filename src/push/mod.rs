//! Web Push: the validation of endpoints, the payload, its encryption, and the VAPID signature.
//!
//! A request to a push service can reach no private network and reveals nothing of its payload. No IO: `hub::push` decides
//! when and to whom a push is sent.
//! Source: RFC 8030 (delivery), RFC 8291 (encryption), RFC 8292 (VAPID), PROTOCOL-PUSH.md "Push notifications".

pub mod endpoint;
pub mod payload;
pub mod request;
pub mod vapid;

use base64::Engine;
use base64::engine::general_purpose::GeneralPurpose;
use base64::engine::{DecodePaddingMode, GeneralPurposeConfig};

/// Encodes without padding; decodes with or without.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_encode_padding(false).with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

pub fn to_base64url(bytes: &[u8]) -> String {
    BASE64URL.encode(bytes)
}

pub fn from_base64url(text: &str) -> Option<Vec<u8>> {
    BASE64URL.decode(text).ok()
}

/// Decodes base64 of either alphabet (RFC 4648 sections 4 and 5), with or without padding.
pub fn from_any_base64(text: &str) -> Option<Vec<u8>> {
    from_base64url(&text.replace('+', "-").replace('/', "_"))
}
