//! Devices, the codes with which devices get their tokens, and the generations of namespaces' tokens. The first characters of a
//! code are its *selector*, by which the code is found.
//!
//! The worker runs some of these statements without a fence, so each batch may run twice.

use super::columns::{Columns, find_last, read_last};
use super::{Database, DbError, Statement, Value, of_namespace};
use crate::model::json::Json;
use crate::model::namespace::Namespace;

pub const MAX_DEVICES: u64 = 100;
/// How many codes of a namespace may wait for a device.
pub const MAX_PENDING_CODES: u64 = 5;
/// A code is deleted after this many wrong codes with the same selector.
pub const MAX_WRONG_GUESSES: u64 = 5;
/// How long a code is valid, in milliseconds.
pub const CODE_LIFETIME_MS: u64 = 5 * 60_000;
/// How many times a device may claim its token: more than once, because the response to the first claim may be lost.
const MAX_CLAIMS: u64 = 2;
/// How long a revoked device is kept, in milliseconds.
const TOMBSTONE_MS: u64 = 30 * 24 * 3_600_000;
/// The precision of `lastSeenAt`, in milliseconds.
const LAST_SEEN_PRECISION_MS: u64 = 3_600_000;

/// Whether a credential is not revoked: NULL for the shared secret, the generation of a namespace's tokens, or the id of a device. A write
/// that outlives its request has this condition, because the credential may be revoked while the write waits. The comparison with the
/// generation must be `=`: in SQLite, any text is greater than any number.
#[rustfmt::skip]
macro_rules! is_valid_credential {
    ($namespace:literal, $credential:literal) => { concat!(
        "(", $credential, " IS NULL OR ", $credential, " = coalesce((SELECT generation FROM namespaces WHERE namespace = ", $namespace, "), 0)
  OR EXISTS (SELECT 1 FROM devices WHERE id = ", $credential, " AND namespace = ", $namespace, " AND revoked_at IS NULL))"
    ) };
}
pub(super) use is_valid_credential;

/// A device as JSON. `?2`: the id of the device of the request, or NULL.
#[rustfmt::skip]
macro_rules! device_json {
    ($more:literal) => { concat!(
        "json_object('id', id, 'name', name, 'kind', kind, 'createdAt', created_at, 'lastSeenAt', last_seen_at", $more, ")"
    ) };
}

/// `?1`: namespace, `?2`: id of the device of the request, or NULL.
#[rustfmt::skip]
const SELECT_ALL: &str = concat!("SELECT created_at, ", device_json!(", 'isCurrent', json(iif(id IS ?2, 'true', 'false'))"),
    " FROM devices WHERE namespace = ?1 AND revoked_at IS NULL ORDER BY created_at DESC, id DESC");

/// `?1`: namespace, `?2`: id.
const SELECT_ONE: &str =
    concat!("SELECT ", device_json!(""), " FROM devices WHERE id = ?2 AND namespace = ?1 AND revoked_at IS NULL");

macro_rules! select_state {
    ($condition:literal) => {
        concat!("SELECT id, namespace, revoked_at IS NOT NULL, last_seen_at FROM devices WHERE ", $condition)
    };
}

/// The length of a prefix of a token's hash, in characters of base64url: 36 bits.
pub const TOKEN_PREFIX_LEN: usize = 6;

pub(super) const SELECT_BY_TOKEN: &str = select_state!("token_hash = ?1");

const SELECT_BY_ID: &str = select_state!("id = ?1");

/// Deletes expired codes, and the code with selector `?1` if it had `?3` wrong guesses. `?2`: now.
const DELETE_UNUSABLE: &str = "DELETE FROM pairings WHERE expires_at <= ?2 OR selector = ?1 AND wrong_guesses >= ?3";

/// Inserts a code, unless the selector is in use, the namespace has too many codes, or the credential is revoked. `?1`: selector, `?2`:
/// hash of the code, `?3`: claim hash, `?4`: id of the device, `?5`: namespace or NULL, `?6`: name or NULL, `?7`: kind or NULL, `?8`: 1
/// if approved or NULL, `?9`: claims, `?10`: now, `?11`: expiry, `?12`: the limit, `?13`: the credential.
const INSERT_PAIRING: &str = concat!(
    "
INSERT OR IGNORE INTO pairings (selector, code_hash, claim_hash, device_id, namespace, name, kind, is_approved, claims_left, created_at, expires_at)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11
WHERE (SELECT count(*) FROM pairings WHERE namespace = ?5 AND claim_hash = code_hash AND claims_left > 0) < ?12
  AND ",
    is_valid_credential!("?5", "?13")
);

/// Whether a code was inserted, and how many codes of the namespace wait. `?1`: hash, `?2`: namespace or NULL, `?3`: selector.
const SELECT_INSERTED: &str = "
SELECT EXISTS (SELECT 1 FROM pairings WHERE selector = ?3 AND code_hash = ?1),
  (SELECT count(*) FROM pairings WHERE namespace = ?2 AND claim_hash = code_hash AND claims_left > 0)";

/// `?1`: selector, `?2`: hash of the code.
const COUNT_WRONG_GUESS: &str =
    "UPDATE pairings SET wrong_guesses = wrong_guesses + 1 WHERE selector = ?1 AND code_hash <> ?2";

/// A request as JSON. `?1`: selector, `?2`: hash of the code.
const SELECT_REQUEST: &str = "
SELECT json_object('name', name, 'kind', kind, 'createdAt', created_at, 'expiresAt', expires_at), is_approved, namespace
FROM pairings WHERE selector = ?1 AND code_hash = ?2 AND claim_hash <> code_hash";

/// Decides a request that is undecided. `?1`: selector, `?2`: hash of the code, `?3`: namespace, `?4`: 1 or 0, `?5`: the credential.
const DECIDE: &str = concat!(
    "
UPDATE pairings SET is_approved = ?4, namespace = ?3
WHERE selector = ?1 AND code_hash = ?2 AND claim_hash <> code_hash AND is_approved IS NULL
  AND ",
    is_valid_credential!("?3", "?5")
);

/// Assigns a new token to an approved code with claims left. `?1`: claim hash, `?2`: hash of the token, `?3`: the limit of devices.
const CLAIM: &str = "
UPDATE pairings SET claims_left = claims_left - 1, token_hash = ?2
WHERE claim_hash = ?1 AND is_approved = 1 AND claims_left > 0 AND token_hash IS NOT ?2
  AND (SELECT count(*) FROM devices d WHERE d.namespace = pairings.namespace AND d.revoked_at IS NULL AND d.id <> device_id) < ?3";

/// Inserts the device of a claimed code, or replaces its token. `?1`: hash of the token, `?2`, `?3`: default name and kind, `?4`: now.
const INSERT_DEVICE: &str = "
INSERT INTO devices (id, namespace, name, kind, token_hash, created_at, last_seen_at)
SELECT device_id, namespace, coalesce(name, ?2), coalesce(kind, ?3), ?1, ?4, ?4 FROM pairings WHERE token_hash = ?1
ON CONFLICT (id) DO UPDATE SET token_hash = excluded.token_hash WHERE revoked_at IS NULL";

const SELECT_CLAIMED: &str = concat!("SELECT ", device_json!(""), ", namespace FROM devices WHERE token_hash = ?1");

/// The device that has used a code, also if revoked since, or `null` while the code is usable. `?1`: namespace, `?2`: device, `?3`: now.
#[rustfmt::skip]
const SELECT_CODE_USER: &str = concat!("SELECT ", device_json!(""), " FROM devices WHERE id = ?2 AND namespace = ?1
UNION ALL SELECT 'null' FROM pairings
WHERE namespace = ?1 AND device_id = ?2 AND claim_hash = code_hash AND claims_left > 0 AND expires_at > ?3");

const SELECT_CLAIM: &str = "SELECT is_approved, claims_left FROM pairings WHERE claim_hash = ?1";

/// The fields of a device that the verification of the device's token needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceState {
    pub id: String,
    pub namespace: Namespace,
    pub is_revoked: bool,
    last_seen_at: u64,
}

pub struct NewPairing<'a> {
    /// The hash of the secret with which a device claims its token after the approval; `None` if the code itself suffices.
    pub secret_hash: Option<&'a str>,
    pub namespace: Option<&'a Namespace>,
    pub name: Option<&'a str>,
    pub kind: Option<&'a str>,
    pub credential: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insertion {
    Done,
    /// Another code has the same selector.
    Collision,
    TooManyCodes,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Claim {
    Device(Json, String),
    Pending,
    Denied,
    TooManyDevices,
    /// The code or secret does not exist, has expired, or was used.
    Unknown,
}

/// The request of a device for a token, as [`find_request`] returns it.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub json: Json,
    pub is_approved: Option<bool>,
    pub namespace: Option<String>,
}

/// Returns the array of the devices of a namespace, newest first.
pub async fn list(db: &dyn Database, namespace: &Namespace, current: Option<&str>) -> Result<Json, DbError> {
    let statement = Statement::new(SELECT_ALL, [namespace.into(), current.into()]);
    let devices = db.query_joined(&statement, MAX_DEVICES).await?.text;
    Ok(Json::from_string(format!("[{devices}]")).unwrap_or_else(Json::null))
}

/// Renames a device. Returns it; `None` if the namespace has no such device.
pub async fn rename(db: &dyn Database, namespace: &Namespace, id: &str, name: &str) -> Result<Option<Json>, DbError> {
    let sql = "UPDATE devices SET name = ?3 WHERE id = ?2 AND namespace = ?1 AND revoked_at IS NULL";
    let rename = Statement::new(sql, [namespace.into(), id.into(), name.into()]);
    let select = Statement::new(SELECT_ONE, [namespace.into(), id.into()]);
    find_last(db, "devices", vec![rename, select]).await?.map(|mut c| c.json("json")).transpose()
}

/// Whether the namespace has or had a device: a revoked device counts as well.
pub async fn exists(db: &dyn Database, namespace: &Namespace, id: &str) -> Result<bool, DbError> {
    let sql = "SELECT 1 FROM devices WHERE id = ?2 AND namespace = ?1";
    let select = Statement::new(sql, [namespace.into(), id.into()]);
    Ok(find_last(db, "devices", vec![select]).await?.is_some())
}

pub fn revoke(namespace: &Namespace, id: &str, now: u64) -> Statement {
    let sql = "UPDATE devices SET revoked_at = ?3 WHERE id = ?2 AND namespace = ?1 AND revoked_at IS NULL";
    Statement::new(sql, [namespace.into(), id.into(), now.into()])
}

/// A statement that deletes a namespace's approved requests, and its codes: with `device`, only those that are not older than it.
pub fn delete_pairings(namespace: &Namespace, device: Option<&str>) -> Statement {
    let sql = "DELETE FROM pairings WHERE namespace = ?1
  AND (?2 IS NULL OR claim_hash <> code_hash OR created_at >= (SELECT created_at FROM devices WHERE id = ?2))";
    Statement::new(sql, [namespace.into(), device.into()])
}

/// Statements that revoke all devices of a namespace, and begin a generation of its tokens.
pub fn revoke_all(namespace: &Namespace, generation: u32, now: u64) -> [Statement; 2] {
    let revoke = "UPDATE devices SET revoked_at = ?2 WHERE namespace = ?1 AND revoked_at IS NULL";
    let set_generation = "INSERT INTO namespaces (namespace, generation) VALUES (?1, ?2)
ON CONFLICT (namespace) DO UPDATE SET generation = max(generation, excluded.generation)";
    [
        Statement::new(revoke, [namespace.into(), now.into()]),
        Statement::new(set_generation, [namespace.into(), u64::from(generation).into()]),
    ]
}

pub async fn load_generation(db: &dyn Database, namespace: &Namespace) -> Result<u32, DbError> {
    let sql = "SELECT generation FROM namespaces WHERE namespace = ?1";
    let row = find_last(db, "namespaces", of_namespace(namespace, [sql])).await?;
    let generation = row.map(|mut c| c.number("generation")).transpose()?;
    Ok(u32::try_from(generation.unwrap_or(0)).unwrap_or(u32::MAX))
}

/// Returns the prefixes of the hashes of all tokens of devices, joined. Reads the index of the tokens only, which has this column.
pub async fn load_token_prefixes(db: &dyn Database) -> Result<String, DbError> {
    let sql = "SELECT coalesce(group_concat(substr(token_hash, 1, 6), ''), '') AS prefixes FROM devices";
    read_last(db, "devices", vec![Statement::new(sql, [])]).await?.text("prefixes")
}

pub async fn find_by_token(db: &dyn Database, token_hash: &str) -> Result<Option<DeviceState>, DbError> {
    find(db, Statement::new(SELECT_BY_TOKEN, [token_hash.into()])).await
}

pub async fn find_by_id(db: &dyn Database, id: &str) -> Result<Option<DeviceState>, DbError> {
    find(db, Statement::new(SELECT_BY_ID, [id.into()])).await
}

async fn find(db: &dyn Database, statement: Statement) -> Result<Option<DeviceState>, DbError> {
    let Some(mut c) = find_last(db, "devices", vec![statement]).await? else { return Ok(None) };
    Ok(Some(DeviceState {
        id: c.text("id")?,
        namespace: c.parse("namespace", "a namespace", |namespace| Namespace::parse(&namespace))?,
        is_revoked: c.flag("revoked")?,
        last_seen_at: c.number("last_seen_at")?,
    }))
}

/// Returns a statement that records that a device was used, if the last record is old.
pub fn record_use(device: &DeviceState, now: u64) -> Option<Statement> {
    let is_due = device.last_seen_at + LAST_SEEN_PRECISION_MS <= now;
    let sql = "UPDATE devices SET last_seen_at = max(last_seen_at, ?2) WHERE id = ?1";
    is_due.then(|| Statement::new(sql, [device.id.as_str().into(), now.into()]))
}

fn delete_unusable_codes(selector: Value, now: u64) -> Statement {
    Statement::new(DELETE_UNUSABLE, [selector, now.into(), MAX_WRONG_GUESSES.into()])
}

/// Inserts a code for the device that will have the id `device_id`.
pub async fn insert_pairing(
    db: &dyn Database,
    (selector, code_hash, device_id): (&str, &str, &str),
    pairing: &NewPairing<'_>,
    now: u64,
) -> Result<Insertion, DbError> {
    let NewPairing { secret_hash, namespace, name, kind, credential } = pairing;
    let namespace = Value::from(*namespace);
    let (is_approved, claims) = if secret_hash.is_some() { (Value::Null, MAX_CLAIMS) } else { (1.into(), 1) };
    let insert = Statement::new(
        INSERT_PAIRING,
        [
            selector.into(),
            code_hash.into(),
            secret_hash.unwrap_or(code_hash).into(),
            device_id.into(),
            namespace.clone(),
            (*name).into(),
            (*kind).into(),
            is_approved,
            claims.into(),
            now.into(),
            (now + CODE_LIFETIME_MS).into(),
            MAX_PENDING_CODES.into(),
            credential.clone(),
        ],
    );
    let select = Statement::new(SELECT_INSERTED, [code_hash.into(), namespace, selector.into()]);
    let statements = vec![delete_unusable_codes(selector.into(), now), insert, select];
    let mut c = read_last(db, "pairings", statements).await?;
    let (is_inserted, pending) = (c.flag("inserted")?, c.number("pending")?);
    Ok(match is_inserted {
        true => Insertion::Done,
        false if pending >= MAX_PENDING_CODES => Insertion::TooManyCodes,
        false => Insertion::Collision,
    })
}

pub struct Decision<'a> {
    pub namespace: &'a Namespace,
    pub is_approved: bool,
    pub credential: Value,
}

/// Looks up a request by its code. The decision is applied before the lookup, unless the request was decided already or the credential is
/// revoked. A wrong code is counted as a guess.
pub async fn find_request(
    db: &dyn Database,
    selector: &str,
    code_hash: &str,
    decision: Option<Decision<'_>>,
    now: u64,
) -> Result<Option<Request>, DbError> {
    let mut statements = vec![
        Statement::new(COUNT_WRONG_GUESS, [selector.into(), code_hash.into()]),
        delete_unusable_codes(selector.into(), now),
    ];
    statements.extend(decision.map(|Decision { namespace, is_approved, credential }| {
        let (namespace, is_approved) = (namespace.into(), u64::from(is_approved).into());
        Statement::new(DECIDE, [selector.into(), code_hash.into(), namespace, is_approved, credential])
    }));
    statements.push(Statement::new(SELECT_REQUEST, [selector.into(), code_hash.into()]));
    let Some(mut c) = find_last(db, "pairings", statements).await? else { return Ok(None) };
    Ok(Some(Request {
        json: c.json("json")?,
        is_approved: c.optional("is_approved", Columns::flag)?,
        namespace: c.optional("namespace", Columns::text)?,
    }))
}

/// Returns the device that has used a code, JSON null while the code is unused, and `None` for an unknown, expired or deleted code.
pub async fn find_code_user(
    db: &dyn Database,
    namespace: &Namespace,
    device_id: &str,
    now: u64,
) -> Result<Option<Json>, DbError> {
    let select = Statement::new(SELECT_CODE_USER, [namespace.into(), device_id.into(), now.into()]);
    find_last(db, "devices", vec![select]).await?.map(|mut c| c.json("json")).transpose()
}

/// The code that a device presents, with the name and the kind of the device.
pub struct ClaimedCode<'a> {
    /// The selector of the code, whose wrong guesses are counted.
    pub selector: &'a str,
    pub name: &'a str,
    pub kind: &'a str,
}

/// Claims the token of a device. `code`: `None` for the secret of a request, which has the name and the kind of the device. One
/// statement decides between concurrent claims.
pub async fn claim(
    db: &dyn Database,
    claim_hash: &str,
    token_hash: &str,
    code: Option<ClaimedCode<'_>>,
    now: u64,
) -> Result<Claim, DbError> {
    let selector = Value::from(code.as_ref().map(|code| code.selector));
    let (name, kind) = code.map(|code| (code.name, code.kind)).unzip();
    let mut statements = vec![
        Statement::new(COUNT_WRONG_GUESS, [selector.clone(), claim_hash.into()]),
        delete_unusable_codes(selector, now),
        Statement::new("DELETE FROM devices WHERE revoked_at < ?1", [now.saturating_sub(TOMBSTONE_MS).into()]),
        Statement::new(CLAIM, [claim_hash.into(), token_hash.into(), MAX_DEVICES.into()]),
        Statement::new(INSERT_DEVICE, [token_hash.into(), name.into(), kind.into(), now.into()]),
        Statement::new(SELECT_CLAIMED, [token_hash.into()]),
        Statement::new(SELECT_CLAIM, [claim_hash.into()]),
    ];
    let mut results = db.batch(&mut statements).await?;
    let mut next_row = || results.pop()?.pop();
    let (remaining, device) = (next_row(), next_row());
    if let Some(row) = device {
        let mut c = Columns::new("devices", row);
        return Ok(Claim::Device(c.json("json")?, c.text("namespace")?));
    }
    let Some(row) = remaining else { return Ok(Claim::Unknown) };
    let mut c = Columns::new("pairings", row);
    Ok(match (c.optional("is_approved", Columns::flag)?, c.number("claims_left")?) {
        (None, _) => Claim::Pending,
        (Some(false), _) => Claim::Denied,
        (Some(true), 0) => Claim::Unknown,
        (Some(true), _) => Claim::TooManyDevices,
    })
}
