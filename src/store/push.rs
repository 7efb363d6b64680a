//! Push subscriptions.

use super::{Columns, Database, DbError, Row, Statement, Value, query, sql};
use crate::model::namespace::Namespace;

/// A browser's push subscription, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushSubscription {
    /// The push service's URL for it; its key in the namespace.
    pub endpoint: String,
    /// The browser's public key, base64url.
    pub p256dh: String,
    /// The authentication secret, base64url.
    pub auth: String,
    /// The origin under which its subscriber knows the hub, if that is an https one.
    pub hub: Option<String>,
}

/// The namespace's subscriptions, oldest first.
pub async fn all(db: &dyn Database, namespace: &Namespace) -> Result<Vec<PushSubscription>, DbError> {
    let rows = query(db, Statement::new(sql::PUSH_SUBSCRIPTIONS, [namespace.as_ref().into()])).await?;
    Ok(rows.into_iter().map(subscription).collect())
}

/// Writes a subscription, in the place of an earlier one for its endpoint, and drops the oldest beyond `most`.
pub fn put(namespace: &Namespace, subscription: &PushSubscription, now: u64, most: u64) -> [Statement; 2] {
    let PushSubscription { endpoint, p256dh, auth, hub } = subscription;
    let namespace: Value = namespace.as_ref().into();
    let hub = hub.as_deref().map_or(Value::Null, Value::from);
    let params =
        [namespace.clone(), endpoint.as_str().into(), p256dh.as_str().into(), auth.as_str().into(), hub, now.into()];
    let trim = Statement::new(sql::TRIM_PUSH_SUBSCRIPTIONS, [namespace, most.into()]);
    [Statement::new(sql::UPSERT_PUSH_SUBSCRIPTION, params), trim]
}

/// Deletes subscriptions by their endpoints.
pub fn delete(namespace: &Namespace, endpoints: &[String]) -> Statement {
    let endpoints = serde_json::to_string(endpoints).unwrap_or_default();
    Statement::new(sql::DELETE_PUSH_SUBSCRIPTIONS, [namespace.as_ref().into(), Value::Text(endpoints)])
}

fn subscription(row: Row) -> PushSubscription {
    let mut c = Columns::of(row);
    PushSubscription { endpoint: c.text(), p256dh: c.text(), auth: c.text(), hub: c.maybe_text() }
}
