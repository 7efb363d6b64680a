//! Web push subscriptions.

use super::columns::{Columns, read_rows};
use super::devices::is_valid_credential;
use super::{Database, DbError, Statement, Value, query};
use crate::model::namespace::Namespace;

/// The subscriptions of a namespace, oldest first, except those of revoked devices. `?1`: namespace.
const SELECT_ALL: &str = "
SELECT endpoint, p256dh, auth, hub, device, token_device, notify, secret FROM push_subscriptions WHERE namespace = ?1
  AND NOT EXISTS (SELECT 1 FROM devices WHERE id = token_device AND revoked_at IS NOT NULL) ORDER BY created_at, endpoint";

/// Replaces the subscription with the same endpoint, and the one of the same device, unless the credential is revoked. `?1`:
/// namespace, `?2`: endpoint, `?3`: p256dh, `?4`: auth, `?5`: origin of the hub or NULL, `?6`: now, `?7`: device or NULL, `?8`: id of
/// the device of the token, or NULL, `?9`: `notify` or NULL, `?10`: id of the access secret of the token, or NULL, `?11`: the credential.
#[rustfmt::skip]
const UPSERT: &str = concat!("
INSERT OR REPLACE INTO push_subscriptions (namespace, endpoint, p256dh, auth, hub, created_at, device, token_device, notify, secret)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 WHERE ", is_valid_credential!("?1", "?11"));

/// Deletes the oldest subscriptions. `?1`: namespace, `?2`: how many remain.
const TRIM: &str = "
DELETE FROM push_subscriptions WHERE namespace = ?1 AND endpoint NOT IN (
  SELECT endpoint FROM push_subscriptions WHERE namespace = ?1 ORDER BY created_at DESC, endpoint DESC LIMIT ?2)";

/// The push subscription of a browser (RFC 8030, RFC 8291).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushSubscription {
    /// The URL at the push service. Unique in the namespace.
    pub endpoint: String,
    /// The public key of the browser, base64url.
    pub p256dh: String,
    /// The authentication secret, base64url.
    pub auth: String,
    /// The origin under which the subscriber reaches the hub, if it is https.
    pub hub_origin: Option<String>,
    /// The id of the client's device, which the client chooses. A namespace has at most one subscription of a device.
    pub device: Option<String>,
    /// The id that the hub gave to the device whose token made the subscription.
    pub token_device: Option<String>,
    /// The id of the access secret of the token that made the subscription. `None` for a device, or if an earlier version wrote it.
    pub secret: Option<String>,
    /// Whether the device is notified about permission requests only.
    pub requests_only: bool,
}

/// The value of the column `notify` for permission requests only.
const REQUESTS_ONLY: &str = "requests";

pub async fn load_all(db: &dyn Database, namespace: &Namespace) -> Result<Vec<PushSubscription>, DbError> {
    read_rows("push_subscriptions", query(db, Statement::new(SELECT_ALL, [namespace.into()])).await?, |c| {
        let (endpoint, p256dh, auth) = (c.text("endpoint")?, c.text("p256dh")?, c.text("auth")?);
        let (hub_origin, device) = (c.optional("hub", Columns::text)?, c.optional("device", Columns::text)?);
        let token_device = c.optional("token_device", Columns::text)?;
        let requests_only = c.optional("notify", Columns::text)?.as_deref() == Some(REQUESTS_ONLY);
        let secret = c.optional("secret", Columns::text)?;
        Ok(PushSubscription { endpoint, p256dh, auth, hub_origin, device, token_device, secret, requests_only })
    })
}

/// Statements that write a subscription, unless the [credential](is_valid_credential) is revoked, and delete the oldest above `limit`.
pub fn upsert(namespace: &Namespace, s: &PushSubscription, credential: Value, now: u64, limit: u64) -> [Statement; 2] {
    let params = [
        namespace.into(),
        s.endpoint.as_str().into(),
        s.p256dh.as_str().into(),
        s.auth.as_str().into(),
        s.hub_origin.as_deref().into(),
        now.into(),
        s.device.as_deref().into(),
        s.token_device.as_deref().into(),
        s.requests_only.then_some(REQUESTS_ONLY).into(),
        s.secret.as_deref().into(),
        credential,
    ];
    [Statement::new(UPSERT, params), Statement::new(TRIM, [namespace.into(), limit.into()])]
}

pub fn delete(namespace: &Namespace, endpoints: &[String]) -> Statement {
    let sql = "DELETE FROM push_subscriptions WHERE namespace = ?1 AND endpoint IN (SELECT value FROM json_each(?2))";
    Statement::new(sql, [namespace.into(), Value::json(endpoints)])
}

/// A statement that sets the access secret of the subscriptions that earlier versions wrote without an access secret.
pub fn set_missing_secret(namespace: &Namespace, secret: &str) -> Statement {
    let sql = "
UPDATE push_subscriptions SET secret = ?2 WHERE namespace = ?1 AND secret IS NULL AND token_device IS NULL";
    Statement::new(sql, [namespace.into(), secret.into()])
}

pub fn delete_of_device(namespace: &Namespace, id: &str) -> Statement {
    let sql = "DELETE FROM push_subscriptions WHERE namespace = ?1 AND token_device = ?2";
    Statement::new(sql, [namespace.into(), id.into()])
}

pub fn delete_all(namespace: &Namespace) -> Statement {
    Statement::new("DELETE FROM push_subscriptions WHERE namespace = ?1", [namespace.into()])
}
