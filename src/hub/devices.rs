//! Revocations of tokens, and the check of a credential that the object's storage does not know (docs/design/devices.md).

use crate::auth::token::Credential;
use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::core::peers::connections::{Connection, Peer};
use crate::hub::core::storage_keys::{CONFIRMED_DEVICES, GENERATION, REVOKED_DEVICES, REVOKING};
use crate::store::devices::{self, DeviceState};
use crate::store::{DbError, Statement, push};

/// How long the object's storage records that a device was revoked, in milliseconds: longer than a worker caches the device's token.
const REVOCATION_RECORD_MS: u64 = 3_600_000;

impl Hub {
    /// Whether a credential is still valid. Asks the database, if the storage does not show it: once for each device or generation.
    pub async fn confirm_credential(&self, credential: &Credential) -> Result<bool, Error> {
        match credential {
            Credential::Shared => {}
            Credential::Generation(_) => drop(self.access.load_generation().await?),
            Credential::Device(id) if !self.confirm_device(id).await? => return Ok(false),
            Credential::Device(_) => {}
        }
        Ok(!self.access.is_revoked(credential))
    }

    /// Whether a device is valid, unless the object's storage shows that it was revoked.
    async fn confirm_device(&self, id: &str) -> Result<bool, Error> {
        let key = format!("{CONFIRMED_DEVICES}{id}");
        let is_revoking_all = || self.rt.kv_get(REVOKING).is_some();
        while self.rt.kv_get(&key).is_none() {
            let before = (self.access.stored_generation(), is_revoking_all());
            let device = devices::find_by_id(&self.access.db, id).await?;
            let is_valid = |device: DeviceState| !device.is_revoked && device.namespace == self.config.namespace;
            if !device.is_some_and(is_valid) || self.is_closed() {
                return Ok(false);
            }
            // The database has not performed the revocation yet, so the request comes before it.
            if is_revoking_all() || self.access.is_device_revoked(id) {
                return Ok(true);
            }
            // A revocation of all devices that ended during the read has stored a later generation.
            if before == (self.access.stored_generation(), false) {
                self.rt.kv_put(&key, "");
            }
        }
        Ok(true)
    }

    /// `DELETE /api/devices/:id`: revokes the token of a device, closes its sockets and deletes its push subscriptions. Does the same for
    /// a device that was revoked before, because the hub may have been interrupted then.
    pub async fn revoke_device(&self, id: &str) -> Result<(), Error> {
        let (namespace, now) = (&self.config.namespace, self.rt.now());
        let statements = vec![devices::revoke(namespace, id, now), push::delete_of_device(namespace, id)];
        self.revoke(statements, format!("{REVOKED_DEVICES}{id}"), now, Some(id)).await?;
        for (key, revoked_at) in self.rt.kv_list(REVOKED_DEVICES) {
            if revoked_at.parse().is_ok_and(|at: u64| at + REVOCATION_RECORD_MS < now) {
                self.rt.kv_delete(&key);
            }
        }
        Ok(())
    }

    /// `POST /api/namespaces/revoke`: revokes all tokens, devices and JWTs; other clients reconnect. Returns the new generation.
    pub async fn revoke_namespace(&self) -> Result<u32, Error> {
        let namespace = &self.config.namespace;
        let generation = self.access.load_generation().await? + 1;
        let mut statements = Vec::from(devices::revoke_all(namespace, generation, self.rt.now()));
        statements.push(push::delete_all(namespace));
        self.revoke(statements, GENERATION.to_owned(), generation.into(), None).await?;
        Ok(generation)
    }

    /// Records a revocation under `key` in the object's storage, commits it, and disconnects the clients of `device`, or all, also if the
    /// outcome is unknown. The batch also deletes the codes that the revoked client may have created, and all approved requests.
    async fn revoke(
        &self,
        mut statements: Vec<Statement>,
        key: String,
        value: u64,
        device: Option<&str>,
    ) -> Result<(), Error> {
        statements.push(devices::delete_pairings(&self.config.namespace, device));
        // Stored before the commit, so that requests and sockets that begin during the commit are refused.
        let (earlier, value) = (self.rt.kv_get(&key), value.to_string());
        self.rt.kv_put(&key, &value);
        self.rt.kv_list(CONFIRMED_DEVICES).iter().for_each(|(key, _)| self.rt.kv_delete(key));
        let pending_key = format!("{REVOKING}{}", device.unwrap_or_default());
        self.rt.kv_put(&pending_key, "");
        let result = self.subscriptions.change(statements).await;
        if result.as_ref().map_or_else(DbError::is_outcome_unknown, |()| true) {
            self.end_revocation(&pending_key);
            return Ok(result?);
        }
        self.rt.kv_delete(&pending_key);
        // Undone, so that a device that revokes itself can try again. But a concurrent revocation may have stored another value.
        if self.rt.kv_get(&key) == Some(value) {
            match earlier {
                Some(earlier) => self.rt.kv_put(&key, &earlier),
                None => self.rt.kv_delete(&key),
            }
        }
        Ok(result?)
    }

    pub(in crate::hub) fn end_revocation(&self, pending_key: &str) {
        let device = pending_key.strip_prefix(REVOKING).filter(|id| !id.is_empty());
        let is_revoked = |connection: &Connection| device.is_none() || token_device(&connection.peer) == device;
        self.turn().disconnect_where((4401, "The token was revoked"), is_revoked);
        self.rt.kv_delete(pending_key);
    }
}

/// Returns the id of the device whose token a client used.
fn token_device(peer: &Peer) -> Option<&str> {
    match peer {
        // CONNECT checks the credential.
        Peer::Connecting(_) => None,
        Peer::Cli(cli) => cli.token_device.as_deref(),
        Peer::Web(subscription) => subscription.token_device.as_deref(),
    }
}
