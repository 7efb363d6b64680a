//! Authentication: access tokens of CLIs, scripts and devices, the JWTs of web clients, the codes of new devices, and the tokens
//! that answer a permission request from a notification.
//!
//! A valid token grants access to exactly one namespace. Secrets are compared in constant time and never logged.
//! Source: PROTOCOL.md "Authentication", RFC 7519 (JWT).

pub mod answer_token;
pub mod jwt;
pub mod pairing;
pub mod token;

use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};

/// The block size of SHA-256, in bytes.
const BLOCK_BYTES: usize = 64;

/// Returns the HMAC-SHA256 (RFC 2104) of a message in several parts. Not inlined, because it would be compiled wherever it is used.
#[inline(never)]
fn hmac_sha256(key: &[u8], message: &[&[u8]]) -> [u8; 32] {
    let mut block = [0; BLOCK_BYTES];
    let hashed;
    let key = if key.len() > BLOCK_BYTES {
        hashed = Sha256::digest(key);
        hashed.as_slice()
    } else {
        key
    };
    block.iter_mut().zip(key).for_each(|(byte, key_byte)| *byte = *key_byte);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    message.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with `node:crypto`: `crypto.createHmac('sha256', 'k'.repeat(n)).update('ab').digest('hex')`.
    #[test]
    fn a_mac_agrees_with_another_implementation_for_keys_of_any_length() {
        for (length, expected) in EXPECTED {
            let key = "k".repeat(length);
            let hex: String = hmac_sha256(key.as_bytes(), &[b"a", b"b"]).iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(hex, expected, "{length}");
            assert_eq!(hmac_sha256(key.as_bytes(), &[b"ab"]), hmac_sha256(key.as_bytes(), &[b"", b"ab", b""]));
        }
    }

    const EXPECTED: [(usize, &str); 4] = [
        (0, "d6b79ceb101a91a622011759da3a05a132db82e0545c5e22a0befb71c1530441"),
        (32, "39143a7cd8f1fb0af61ffd2df5b5a64a2fb1fb8be03ab9202c57e49194f854d0"),
        (64, "85b15b4c1ade97f10d704e4cc758f92b61c2f7da66fd5086bcf76217223c6d5e"),
        (65, "c59d991651d04b0bef616be9e39aff50cdc61a79fb02b8209581075a8d3144ae"),
    ];
}
