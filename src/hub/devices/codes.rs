//! Creating the codes with which devices get their tokens.

use crate::auth::pairing::{Code, hash};
use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::model::ids::uuid_v7;
use crate::store::devices::{CODE_LIFETIME_MS, Insertion, NewPairing, insert_pairing};
use crate::store::{Database, Value};

/// The most attempts to generate a code with an unused selector.
const MAX_CODE_ATTEMPTS: u8 = 5;

/// A new code, the id of the device that will use it, and when the code expires.
pub type NewCode = (Code, String, u64);

/// Creates a code with an unused selector from a random secret.
pub async fn create_code(
    db: &dyn Database,
    pairing: &NewPairing<'_>,
    secret: &[u8],
    now: u64,
) -> Result<NewCode, Error> {
    for attempt in 0..MAX_CODE_ATTEMPTS {
        let random = hash([secret, &[attempt]].concat());
        let code = Code::generate(random.as_bytes(), pairing.secret_hash.is_some());
        let device_id = uuid_v7(now, random.as_bytes().first_chunk().unwrap_or(&[0; 10]));
        match insert_pairing(db, (code.selector(), &code.hash(), &device_id), pairing, now).await? {
            Insertion::Done => return Ok((code, device_id, now + CODE_LIFETIME_MS)),
            Insertion::TooManyCodes => return Err(Error::TooManyCodes),
            Insertion::Collision => {}
        }
    }
    Err(Error::Overloaded)
}

impl Hub {
    /// `POST /api/devices/codes`: returns a code. `name` and `kind` are those of the device that will use the code.
    /// Fails if `credential` is revoked.
    pub async fn create_device_code(
        &self,
        name: Option<&str>,
        kind: Option<&'static str>,
        credential: Value,
    ) -> Result<NewCode, Error> {
        let mut secret = [0; 32];
        self.rt.random(&mut secret)?;
        let namespace = Some(&self.config.namespace);
        let pairing = NewPairing { secret_hash: None, namespace, name, kind, credential };
        create_code(&self.access, &pairing, &secret, self.rt.now()).await
    }
}
