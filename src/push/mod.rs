//! The parts of a web push: the endpoints that may be called ([`endpoint`]), the payload ([`payload`]), the encrypted request
//! ([`request`], RFC 8030 and 8291), and the signature that names the hub ([`vapid`], RFC 8292). No IO: `hub` decides when
//! a push is sent, and to whom.

pub mod endpoint;
pub mod payload;
pub mod request;
pub mod vapid;

use base64::Engine;
use base64::engine::general_purpose::GeneralPurpose;
use base64::engine::{DecodePaddingMode, GeneralPurposeConfig};

/// Base64url: written without padding, read with or without, as browsers and their polyfills give it out.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_encode_padding(false).with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Bytes as base64url.
pub fn to_base64url(bytes: &[u8]) -> String {
    BASE64URL.encode(bytes)
}

/// The bytes of a base64url text.
pub fn from_base64url(text: &str) -> Option<Vec<u8>> {
    BASE64URL.decode(text).ok()
}
