//! Devices of the namespace: browsers, phones and CLIs with a token of their own; and revocations (docs/design/devices.md). A worker may
//! forward a token for some seconds after its revocation, so the object checks its own storage for each new socket.

use crate::auth::pairing::{Code, hash};
use crate::auth::token::{Credential, VerifiedToken, is_device_token};
use crate::hub::Hub;
use crate::hub::core::error::{Error, Kind};
use crate::hub::core::peers::connections::{Connection, Peer};
use crate::hub::core::storage_keys::{CONFIRMED_DEVICES, GENERATION, REVOKED_DEVICES, REVOKING};
use crate::model::ids::uuid_v7;
use crate::model::json::Json;
use crate::model::namespace::Namespace;
use crate::store::devices::{self, CODE_LIFETIME_MS, Decision, DeviceState, Insertion, NewPairing, insert_pairing};
use crate::store::{Database, DbError, Statement, Value, push};

/// The client under which the object counts wrong tokens, because it does not know the addresses of clients.
const ALL_CLIENTS: &str = "";

/// The most attempts to generate a code with an unused selector.
const MAX_CODE_ATTEMPTS: u8 = 5;
/// How long the object's storage records that a device was revoked, in milliseconds: longer than a worker caches the device's token.
const REVOCATION_RECORD_MS: u64 = 3_600_000;

/// A new code, the id of the device that will use it, and when the code expires.
pub type NewCode = (Code, String, u64);

/// Creates a code with an unused selector from a random secret.
pub async fn create_code(db: &dyn Database, new: &NewPairing<'_>, secret: &[u8], now: u64) -> Result<NewCode, Error> {
    for attempt in 0..MAX_CODE_ATTEMPTS {
        let random = hash([secret, &[attempt]].concat());
        let code = Code::generate(random.as_bytes(), new.secret_hash.is_some());
        let device_id = uuid_v7(now, random.as_bytes().first_chunk().unwrap_or(&[0; 10]));
        match insert_pairing(db, (code.selector(), &code.hash(), &device_id), new, now).await? {
            Insertion::Done => return Ok((code, device_id, now + CODE_LIFETIME_MS)),
            Insertion::TooManyCodes => return Err(Error::TooManyCodes),
            Insertion::Collision => {}
        }
    }
    Err(Error::Overloaded)
}

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

    /// Whether a credential is still valid. Asks the database, if the storage does not show it: once for each device or generation.
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

    /// `POST /api/devices/codes`: returns a code for a device with this name and kind. Fails if `credential` is revoked.
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

    /// `GET /api/devices`: the array of the devices. `current` is the id of the device that sent the request.
    pub async fn list_devices(&self, current: Option<&str>) -> Result<Json, Error> {
        Ok(devices::list(&self.access, &self.config.namespace, current).await?)
    }

    /// Checks that the namespace has or had a device.
    pub async fn check_device(&self, id: &str) -> Result<(), Error> {
        match devices::exists(&self.access, &self.config.namespace, id).await? {
            true => Ok(()),
            false => Err(Error::NotFound(Kind::Device)),
        }
    }

    /// `PATCH /api/devices/:id`: returns the device.
    pub async fn rename_device(&self, id: &str, name: &str) -> Result<Json, Error> {
        let device = devices::rename(&self.access, &self.config.namespace, id, name).await?;
        device.ok_or(Error::NotFound(Kind::Device))
    }

    /// `GET /api/devices/codes/:deviceId`: returns the device that has used a code; JSON null while the code is unused.
    pub async fn find_code_user(&self, device_id: &str) -> Result<Json, Error> {
        let found = devices::find_code_user(&self.access, &self.config.namespace, device_id, self.rt.now()).await?;
        found.ok_or(Error::UnknownCode)
    }

    /// `GET /api/devices/requests/:code`: returns the request.
    pub async fn find_device_request(&self, code: &Code) -> Result<Json, Error> {
        let found = devices::find_request(&self.access, code.selector(), &code.hash(), None, self.rt.now()).await?;
        found.map(|request| request.json).ok_or(Error::UnknownCode)
    }

    /// `POST /api/devices/requests/:code`: the first decision counts, and succeeds again, because its response may be lost. Fails if
    /// `credential` is revoked.
    pub async fn decide_device_request(&self, code: &Code, is_approved: bool, credential: Value) -> Result<(), Error> {
        let decision = Some(Decision { namespace: &self.config.namespace, is_approved, credential });
        let found = devices::find_request(&self.access, code.selector(), &code.hash(), decision, self.rt.now()).await?;
        let request = found.ok_or(Error::UnknownCode)?;
        let is_own = request.namespace.as_deref() == Some(self.config.namespace.as_str());
        if is_own && request.is_approved == Some(is_approved) { Ok(()) } else { Err(Error::AlreadyDecided) }
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
        let generation = self.load_generation().await? + 1;
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
        let result = self.change_subscriptions(statements).await;
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
