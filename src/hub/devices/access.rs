//! Verifies the tokens with which clients open sockets.

use crate::auth::pairing::hash;
use crate::auth::token::{AccessToken, Credential, is_device_token};
use crate::hub::Hub;
use crate::hub::base::error::Error;
use crate::hub::base::storage_keys::{GENERATION, revoked_device_key};
use crate::model::namespace::Namespace;
use crate::store::devices;

impl Hub {
    /// Verifies the token of a CONNECT packet. Returns its namespace and credential; `None` if it is not valid.
    pub(in crate::hub) async fn verify_token(&self, token: &str) -> Result<Option<(Namespace, Credential)>, Error> {
        if let Some(AccessToken { namespace, credential, .. }) = self.config.tokens.verify(token) {
            if matches!(credential, Credential::Generation(_)) {
                self.load_generation().await?;
            }
            return Ok(Some((namespace, credential)));
        }
        if !is_device_token(token) {
            return Ok(None);
        }
        let found = devices::find_by_token(&self.access, &hash(token)).await?;
        let valid = found.filter(|device| !device.is_revoked);
        Ok(valid.map(|device| (device.namespace, Credential::Device(device.id.into()))))
    }

    /// Whether a credential of this namespace was revoked, as far as the object's storage shows.
    pub fn is_revoked(&self, credential: &Credential) -> bool {
        match credential {
            Credential::Shared => false,
            Credential::Generation(generation) => self.stored_generation().is_some_and(|current| *generation < current),
            Credential::Device(id) => self.rt.kv_get(&revoked_device_key(id)).is_some(),
        }
    }

    /// Returns the generation of the namespace's tokens.
    pub async fn load_generation(&self) -> Result<u32, Error> {
        if let Some(generation) = self.stored_generation() {
            return Ok(generation);
        }
        let generation = devices::load_generation(&self.access, &self.config.namespace).await?;
        // A revocation during the read has stored a later generation.
        let generation = self.stored_generation().unwrap_or(generation);
        self.rt.kv_put(GENERATION, &generation.to_string());
        Ok(generation)
    }

    fn stored_generation(&self) -> Option<u32> {
        self.rt.kv_get(GENERATION)?.parse().ok()
    }
}
