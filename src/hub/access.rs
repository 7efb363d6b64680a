//! Access to the namespace: its credentials and devices, in the database and in the object's storage (docs/design/devices.md). A worker
//! may forward a token for some seconds after its revocation, so the object checks its own storage for each new socket.

use std::sync::{Arc, Mutex};

use crate::auth::answer_token::AnswerKey;
use crate::auth::jwt::JwtKey;
use crate::auth::pairing::{Code, hash};
use crate::auth::token::{Credential, VerifiedToken, is_device_token};
use crate::hub::core::config::Config;
use crate::hub::core::error::{Error, Kind};
use crate::hub::core::ports::Runtime;
use crate::hub::core::storage_keys::{GENERATION, REVOKED_DEVICES};
use crate::memory_budget::lock;
use crate::model::ids::uuid_v7;
use crate::model::json::Json;
use crate::model::namespace::Namespace;
use crate::push::to_base64url;
use crate::store::devices::{self, CODE_LIFETIME_MS, Decision, Insertion, NewPairing, insert_pairing};
use crate::store::fence::FencedDb;
use crate::store::wrong_tokens::WrongTokens;
use crate::store::{Database, Value, secrets};

/// The client under which the object counts wrong tokens, because it does not know the addresses of clients.
const ALL_CLIENTS: &str = "";

/// The most attempts to generate a code with an unused selector.
const MAX_CODE_ATTEMPTS: u8 = 5;

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

/// The credentials and devices of a namespace.
pub struct Access {
    /// The database with the tables of access. The same as [`Hub::db`](crate::hub::Hub::db) if there is only one.
    pub(in crate::hub) db: FencedDb,
    config: Arc<Config>,
    rt: Arc<dyn Runtime>,
    /// The tokens of CONNECT packets that the object reads.
    wrong_tokens: WrongTokens,
    /// The key of answer tokens, once it is loaded.
    answer_key: Mutex<Option<AnswerKey>>,
}

impl Access {
    pub(in crate::hub) fn new(db: FencedDb, config: Arc<Config>, rt: Arc<dyn Runtime>) -> Self {
        Self { db, config, rt, wrong_tokens: WrongTokens::default(), answer_key: Mutex::default() }
    }

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
        if !is_counted && !self.wrong_tokens.could_be_device_token(&self.db, &token_hash, now).await? {
            return Err(Error::Overloaded);
        }
        let found = devices::find_by_token(&self.db, &token_hash).await;
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

    /// Whether the token of a device was revoked, as far as the object's storage shows.
    pub(in crate::hub) fn is_device_revoked(&self, id: &str) -> bool {
        self.rt.kv_get(&format!("{REVOKED_DEVICES}{id}")).is_some()
    }

    pub async fn load_generation(&self) -> Result<u32, Error> {
        if let Some(generation) = self.stored_generation() {
            return Ok(generation);
        }
        let generation = devices::load_generation(&self.db, &self.config.namespace).await?;
        // A revocation during the read has stored a later generation.
        let generation = self.stored_generation().unwrap_or(generation);
        self.rt.kv_put(GENERATION, &generation.to_string());
        Ok(generation)
    }

    pub(in crate::hub) fn stored_generation(&self) -> Option<u32> {
        self.rt.kv_get(GENERATION)?.parse().ok()
    }

    /// Returns the key of answer tokens, from the configured secret of the JWTs or the secret in the database.
    pub(in crate::hub) async fn load_answer_key(&self) -> Result<AnswerKey, Error> {
        if let Some(key) = lock(&self.answer_key).clone() {
            return Ok(key);
        }
        let jwt = match &self.config.jwt {
            Some(jwt) => jwt.clone(),
            None => {
                let mut random = [0; 32];
                self.rt.random(&mut random)?;
                let secret = secrets::get_or_insert(&self.db, secrets::JWT_SECRET, &to_base64url(&random)).await?;
                JwtKey::parse(&secret).map_err(Error::Unavailable)?
            }
        };
        let key = AnswerKey::derive(&jwt);
        *lock(&self.answer_key) = Some(key.clone());
        Ok(key)
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
        create_code(&self.db, &pairing, &secret, self.rt.now()).await
    }

    /// `GET /api/devices`: the array of the devices. `current` is the id of the device that sent the request.
    pub async fn list_devices(&self, current: Option<&str>) -> Result<Json, Error> {
        Ok(devices::list(&self.db, &self.config.namespace, current).await?)
    }

    /// Checks that the namespace has or had a device.
    pub async fn check_device(&self, id: &str) -> Result<(), Error> {
        match devices::exists(&self.db, &self.config.namespace, id).await? {
            true => Ok(()),
            false => Err(Error::NotFound(Kind::Device)),
        }
    }

    /// `PATCH /api/devices/:id`: returns the device.
    pub async fn rename_device(&self, id: &str, name: &str) -> Result<Json, Error> {
        let device = devices::rename(&self.db, &self.config.namespace, id, name).await?;
        device.ok_or(Error::NotFound(Kind::Device))
    }

    /// `GET /api/devices/codes/:deviceId`: returns the device that has used a code; JSON null while the code is unused.
    pub async fn find_code_user(&self, device_id: &str) -> Result<Json, Error> {
        let found = devices::find_code_user(&self.db, &self.config.namespace, device_id, self.rt.now()).await?;
        found.ok_or(Error::UnknownCode)
    }

    /// `GET /api/devices/requests/:code`: returns the request.
    pub async fn find_device_request(&self, code: &Code) -> Result<Json, Error> {
        let found = devices::find_request(&self.db, code.selector(), &code.hash(), None, self.rt.now()).await?;
        found.map(|request| request.json).ok_or(Error::UnknownCode)
    }

    /// `POST /api/devices/requests/:code`: the first decision counts, and succeeds again, because its response may be lost. Fails if
    /// `credential` is revoked.
    pub async fn decide_device_request(&self, code: &Code, is_approved: bool, credential: Value) -> Result<(), Error> {
        let decision = Some(Decision { namespace: &self.config.namespace, is_approved, credential });
        let found = devices::find_request(&self.db, code.selector(), &code.hash(), decision, self.rt.now()).await?;
        let request = found.ok_or(Error::UnknownCode)?;
        let is_own = request.namespace.as_deref() == Some(self.config.namespace.as_str());
        if is_own && request.is_approved == Some(is_approved) { Ok(()) } else { Err(Error::AlreadyDecided) }
    }
}
