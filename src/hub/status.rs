//! What an operator or a user can see of a namespace: `GET /api/status`, and `GET /metrics?namespace=NAME`.

use std::sync::Arc;

use serde::Serialize;

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::core::namespace::quotas::Usage;
use crate::hub::core::telemetry::Fault;
use crate::hub::turn::Turn;
use crate::log::hash_of_namespace;
use crate::metrics::Gauge;
use crate::model::json::Json;
use crate::store::counts::{self, Counts};
use crate::store::places::binding;

/// How long the counts of a status are used, in milliseconds.
const COUNTS_LIFETIME_MS: u64 = 2_000;
/// How many notifications the status has.
const MAX_PUSHES: usize = 5;

/// The body of `GET /api/status`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    version: &'static str,
    protocol_version: u32,
    namespace: String,
    /// The name of the namespace in log lines and metrics.
    hash: String,
    /// When the object was loaded, in Unix milliseconds.
    loaded_at: u64,
    sessions: SessionCounts,
    machines: MachineCounts,
    messages: u64,
    storage: Storage,
    sockets: SocketCounts,
    database: DatabaseStatus,
    /// The latest faults since the object was loaded, the newest first.
    faults: Vec<Fault>,
    /// The latest notifications, the newest first.
    pushes: Vec<Json>,
}

/// What the namespace uses of its quotas.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Storage {
    /// The contents of all messages.
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_bytes: Option<u64>,
    max_sessions: usize,
}

#[derive(Serialize)]
struct SessionCounts {
    total: u64,
    active: u64,
}

#[derive(Serialize)]
struct MachineCounts {
    total: u64,
    online: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SocketCounts {
    clis: u64,
    web_clients: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DatabaseStatus {
    /// The binding, if the hub has several databases.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Whether a query waits for longer than usual.
    is_stalled: bool,
    /// The bytes of the changes that are not written yet.
    queued_bytes: usize,
}

/// What the gauge `hub_held_bytes` measures.
const HELD: &str = "Bytes of the memory budget that requests, frames and caches hold.";

impl Hub {
    pub async fn status(self: &Arc<Self>, version: &'static str, protocol_version: u32) -> Result<Status, Error> {
        let (counts, usage) = self.count_stored().await?;
        let namespace = self.config.namespace.as_str().to_owned();
        // The counts were read from the database, so the place is known.
        let name = self.places.as_ref().map(|places| binding(places.placed.known_number()));
        let turn = self.turn();
        let (clis, web_clients) = turn.count_sockets();
        let queued_bytes = turn.write_queue.pending_bytes();
        drop(turn);
        Ok(Status {
            version,
            protocol_version,
            hash: hash_of_namespace(&namespace),
            namespace,
            loaded_at: self.telemetry.loaded_at,
            sessions: SessionCounts { total: counts.sessions, active: counts.active_sessions },
            machines: MachineCounts { total: counts.machines, online: counts.online_machines },
            messages: counts.messages,
            storage: Storage { bytes: usage.bytes, max_bytes: usage.max_bytes, max_sessions: usage.max_sessions },
            sockets: SocketCounts { clis, web_clients },
            database: DatabaseStatus { name, is_stalled: self.db.ms_until_stalled(self.rt.now()) == 0, queued_bytes },
            faults: self.telemetry.faults(),
            pushes: self.push_log().into_iter().take(MAX_PUSHES).collect(),
        })
    }

    /// Returns what the namespace has, and what it uses of its quotas. Counts at most once in [`COUNTS_LIFETIME_MS`], because a count
    /// reads all sessions of the namespace.
    async fn count_stored(self: &Arc<Self>) -> Result<(Counts, Usage), Error> {
        let mut last = self.status_reads.lock().await;
        let now = self.rt.now();
        if let Some((_, counts, usage)) = last.as_ref().filter(|(at, ..)| now < at + COUNTS_LIFETIME_MS) {
            return Ok((*counts, usage.clone()));
        }
        self.flush().await?;
        let usage = self.usage().await?;
        let counts = counts::load(&self.db, &self.config.namespace).await?;
        *last = Some((now, counts, usage.clone()));
        Ok((counts, usage))
    }

    /// Returns the hash of the namespace, and the numbers of its data points for Analytics Engine: the changes of the metrics since the
    /// last call ([`crate::metrics::Metrics::take_changes`]), and the gauges. `None` without a change.
    pub fn take_metrics(&self) -> Option<(String, [Vec<f64>; 2])> {
        let changes = self.telemetry.metrics.take_changes()?;
        let gauges = self.gauges().iter().map(|gauge| gauge.value as f64).collect();
        Some((hash_of_namespace(self.config.namespace.as_str()), [changes, gauges]))
    }

    /// Returns the metrics since the object was loaded, as text for Prometheus.
    pub fn metrics_text(&self) -> String {
        self.telemetry.metrics.to_prometheus(&self.gauges())
    }

    /// Returns the gauges, in the order of docs/MONITORING.md "Analytics Engine".
    fn gauges(&self) -> [Gauge; 11] {
        let now = self.rt.now();
        let turn = self.turn();
        let (clis, web_clients) = turn.count_sockets();
        let sessions = turn.liveness.live_session_count();
        let (queued, cached) = (turn.write_queue.pending_bytes(), turn.cache.cached_sessions());
        drop(turn);
        let usage = self.rt.database_usage();
        let (held, isolate_held) = (self.budget().bytes(), self.budget().isolate_bytes());
        let gauge = |name, label, help, value| Gauge { name, label, help, value };
        let sockets = |label, value| gauge("hub_sockets", label, "Open sockets.", value);
        [
            sockets(r#"kind="cli""#, clis),
            sockets(r#"kind="web""#, web_clients),
            gauge("hub_active_sessions", "", "Sessions whose CLI is alive.", sessions as u64),
            gauge("hub_cached_sessions", "", "Sessions in memory.", cached as u64),
            gauge("hub_queued_bytes", "", "Bytes of changes that are not written yet.", queued as u64),
            gauge("hub_held_bytes", r#"of="namespace""#, HELD, held as u64),
            gauge("hub_held_bytes", r#"of="isolate""#, HELD, isolate_held as u64),
            gauge(
                "hub_awake_seconds",
                "",
                "Time since the object was loaded.",
                (now - self.telemetry.loaded_at) / 1000,
            ),
            gauge("hub_database_batches", "", "Batches since the object was loaded.", usage.batches),
            gauge("hub_database_rows_read", "", "Rows read since the object was loaded.", usage.rows_read),
            gauge("hub_database_rows_written", "", "Rows written since the object was loaded.", usage.rows_written),
        ]
    }
}

impl Turn<'_> {
    /// Returns the numbers of connected CLIs and web clients.
    fn count_sockets(&self) -> (u64, u64) {
        (self.connections.clis().count() as u64, self.connections.subscriptions().count() as u64)
    }
}
