//! Verifies the tokens with which clients open sockets.

use crate::auth::pairing::hash;
use crate::auth::token::{Credential, VerifiedToken, is_device_token};
use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::core::storage_keys::{CONFIRMED_DEVICES, GENERATION, REVOKING};
use crate::model::namespace::Namespace;
use crate::store::devices::{self, DeviceState};

/// The client under which the object counts wrong tokens, because it does not know the addresses of clients.
const ALL_CLIENTS: &str = "";

impl Hub {
    /// Verifies the token of a CONNECT packet. Returns its namespace and credential; `None` if it is not valid. After too many wrong tokens,
    /// fails for a token that may belong to a device of the last seconds, so that its CLI tries again: a CLI forgets an invalid token.
    pub(in crate::hub) async fn verify_token(&self, token: &str) -> Result<Option<(Namespace, Credential)>, Error> {
        if let Some(VerifiedToken { namespace, credential, .. }) = self.config.tokens.verify(token) {
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
            return Err(Error::Overloaded);
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

    /// Whether a credential is valid, although the worker may have checked it some time ago. Asks the database if the object's storage does
    /// not show it: once for each device, and once for all tokens of the namespace.
    pub async fn confirm_credential(&self, credential: &Credential) -> Result<bool, Error> {
        match credential {
            Credential::Shared => {}
            Credential::Generation(_) => drop(self.load_generation().await?),
            Credential::Device(id) if !self.confirm_device(id).await? => return Ok(false),
            Credential::Device(_) => {}
        }
        Ok(!self.is_revoked(credential))
    }

    /// Whether a device is valid, unless the object's storage shows that it was revoked.
    async fn confirm_device(&self, id: &str) -> Result<bool, Error> {
        let key = format!("{CONFIRMED_DEVICES}{id}");
        let is_revoking_all = || self.rt.kv_get(REVOKING).is_some();
        while self.rt.kv_get(&key).is_none() {
            let before = (self.stored_generation(), is_revoking_all());
            let device = devices::find_by_id(&self.access, id).await?;
            let is_valid = |device: DeviceState| !device.is_revoked && device.namespace == self.config.namespace;
            if !device.is_some_and(is_valid) || self.is_closed() {
                return Ok(false);
            }
            // The database has not performed the revocation yet, so the request comes before it.
            if is_revoking_all() || self.is_device_revoked(id) {
                return Ok(true);
            }
            // A revocation of all devices that ended during the read has stored a later generation.
            if before == (self.stored_generation(), false) {
                self.rt.kv_put(&key, "");
            }
        }
        Ok(true)
    }

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
