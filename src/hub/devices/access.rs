//! Verifies the tokens with which clients open sockets.

use crate::auth::pairing::hash;
use crate::auth::token::{AccessToken, Credential, is_device_token};
use crate::hub::Hub;
use crate::hub::base::error::Error;
use crate::hub::base::storage_keys::GENERATION;
use crate::model::namespace::Namespace;
use crate::store::devices;

/// The client under which the object counts wrong tokens, because it does not know the addresses of clients.
const ALL_CLIENTS: &str = "";

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
        let (token_hash, now) = (hash(token), self.rt.now());
        // Counted before the query, so that concurrent packets are counted as well.
        let is_counted = self.wrong_tokens.count_attempt(ALL_CLIENTS, now);
        if !is_counted && !self.wrong_tokens.could_be_device_token(&self.access, &token_hash, now).await? {
            return Ok(None);
        }
        let found = devices::find_by_token(&self.access, &token_hash).await;
        let valid = found.map(|device| device.filter(|device| !device.is_revoked));
        if is_counted && !matches!(valid, Ok(None)) {
            self.wrong_tokens.revert_attempt(ALL_CLIENTS);
        }
        Ok(valid?.map(|device| (device.namespace, Credential::Device(device.id.into()))))
    }

    /// Whether a credential of this namespace was revoked, as far as the object's storage shows.
    pub fn is_revoked(&self, credential: &Credential) -> bool {
        match credential {
            Credential::Shared => false,
            Credential::Generation(generation) => self.stored_generation().is_some_and(|current| *generation < current),
            Credential::Device(id) => self.is_device_revoked(id),
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
