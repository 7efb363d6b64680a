//! Encryption of a push message for its subscriber (RFC 8291): one record of `aes128gcm` (RFC 8188) under a key that only
//! the browser can derive.

use p256::ecdh::diffie_hellman;
use p256::elliptic_curve::sec1::ToEncodedPoint;
use p256::{PublicKey, SecretKey};
use sha2::Sha256;

use super::from_base64url;

/// The record size that the header tells: push services take bodies of at least so many bytes (RFC 8030 section 7.2).
const RECORD_BYTES: u32 = 4096;
/// The largest message in bytes: a record less its header, the delimiter and the tag (RFC 8291 section 4).
pub const MAX_MESSAGE: usize = 3993;
/// The length of the authentication secret, in bytes.
const AUTH_BYTES: usize = 16;

/// The keys of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// The browser's public key.
    public: PublicKey,
    /// The secret that only it and the hub know.
    auth: [u8; AUTH_BYTES],
}

/// Which of a subscription's keys is not what it has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadKey {
    /// `p256dh` is not a point of the curve.
    P256dh,
    /// `auth` does not have 16 bytes.
    Auth,
}

impl Keys {
    /// Reads the keys as a browser gives them out: base64url of an uncompressed point of P-256, and of 16 bytes.
    pub fn parse(p256dh: &str, auth: &str) -> Result<Self, BadKey> {
        let point = from_base64url(p256dh).filter(|point| point.len() == 65).ok_or(BadKey::P256dh)?;
        let public = PublicKey::from_sec1_bytes(&point).map_err(|_| BadKey::P256dh)?;
        let auth = from_base64url(auth).and_then(|bytes| bytes.try_into().ok()).ok_or(BadKey::Auth)?;
        Ok(Self { public, auth })
    }

    /// Encrypts a message of at most [`MAX_MESSAGE`] bytes. `salt` and `secret` are random and fresh for each message.
    /// `None` when the message is longer or `secret` is no key, of which there are hardly any.
    pub fn encrypt(&self, message: &[u8], salt: &[u8; 16], secret: &[u8; 32]) -> Option<Vec<u8>> {
        if message.len() > MAX_MESSAGE {
            return None;
        }
        let secret = SecretKey::from_slice(secret).ok()?;
        let sender = secret.public_key().to_encoded_point(false);
        let receiver = self.public.to_encoded_point(false);
        let shared = diffie_hellman(secret.to_nonzero_scalar(), self.public.as_affine());
        let info = [b"WebPush: info\0", receiver.as_bytes(), sender.as_bytes()].concat();
        let mut material = [0; 32];
        shared.extract::<Sha256>(Some(&self.auth)).expand(&info, &mut material).ok()?;
        ece_native::encrypt(material, *salt, sender, std::iter::once(message.to_vec()), RECORD_BYTES).ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::push::to_base64url;
    use proptest::prelude::*;
    use web_push_native::{Auth, decrypt};

    // RFC 8291 appendix A.
    const PLAINTEXT: &[u8] = b"When I grow up, I want to be a watermelon";
    const SENDER_SECRET: &str = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw";
    const RECEIVER_SECRET: &str = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94";
    const P256DH: &str = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    const SALT: &str = "DGv6ra1nlYgDCS1FRnbzlw";
    const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";
    const MESSAGE: &str = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIg\
        Dll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN";

    fn bytes<const N: usize>(text: &str) -> [u8; N] {
        from_base64url(text).unwrap().try_into().unwrap()
    }

    fn keys() -> Keys {
        Keys::parse(P256DH, AUTH).unwrap()
    }

    /// Reads a message with another implementation.
    fn read(message: Vec<u8>) -> Vec<u8> {
        let secret = web_push_native::p256::SecretKey::from_slice(&bytes::<32>(RECEIVER_SECRET)).unwrap();
        decrypt(message, &secret, &Auth::clone_from_slice(&bytes::<16>(AUTH))).unwrap()
    }

    #[test]
    fn the_example_of_the_rfc_comes_out_byte_for_byte() {
        let message = keys().encrypt(PLAINTEXT, &bytes(SALT), &bytes(SENDER_SECRET)).unwrap();
        assert_eq!(to_base64url(&message), MESSAGE);
    }

    #[test]
    fn the_largest_message_fills_a_record_and_a_larger_one_is_refused() {
        let (salt, secret) = (bytes(SALT), bytes(SENDER_SECRET));
        let message = keys().encrypt(&[7; MAX_MESSAGE], &salt, &secret).unwrap();
        assert_eq!(message.len(), 4096);
        assert_eq!(read(message), [7; MAX_MESSAGE]);
        assert_eq!(keys().encrypt(&[7; MAX_MESSAGE + 1], &salt, &secret), None);
    }

    #[test]
    fn no_message_is_sent_under_a_secret_that_is_none() {
        assert_eq!(keys().encrypt(PLAINTEXT, &bytes(SALT), &[0; 32]), None);
        assert_eq!(keys().encrypt(PLAINTEXT, &bytes(SALT), &[255; 32]), None);
    }

    #[test]
    fn keys_are_a_point_and_sixteen_bytes_with_or_without_padding() {
        assert_eq!(Keys::parse(&format!("{P256DH}="), &format!("{AUTH}==")), Ok(keys()));
        let off_the_curve = to_base64url(&[&[4][..], &[1; 64]].concat());
        let compressed = to_base64url(keys().public.to_encoded_point(true).as_bytes());
        let infinity = to_base64url(&[0]);
        for odd in ["", "AA", "!", &off_the_curve, &compressed, &infinity, P256DH.get(1..).unwrap(), AUTH] {
            assert_eq!(Keys::parse(odd, AUTH), Err(BadKey::P256dh), "{odd}");
        }
        for odd in ["", "AA", "!", AUTH.get(2..).unwrap(), P256DH, "BTBZMqHH6r4Tts7J/aSIgg"] {
            assert_eq!(Keys::parse(P256DH, odd), Err(BadKey::Auth), "{odd}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
        #[test]
        fn another_implementation_reads_what_was_encrypted(
            message in prop::collection::vec(any::<u8>(), 0..MAX_MESSAGE), salt: [u8; 16], secret: [u8; 32],
        ) {
            if let Some(encrypted) = keys().encrypt(&message, &salt, &secret) {
                prop_assert_eq!(read(encrypted), message);
            }
        }
    }
}
