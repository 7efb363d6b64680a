//! What an operator or a user can see of a namespace: `GET /api/status`, and `GET /metrics?namespace=NAME`.

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::log::hash_of_namespace;
use crate::metrics::Gauge;
use crate::model::json::Json;
use crate::store::counts::{self, Counts};
use crate::store::places::binding;

/// How long the counts of a status are used, in milliseconds.
const COUNTS_LIFETIME_MS: u64 = 2_000;
/// How many notifications the status has.
const MAX_PUSHES: usize = 5;

/// What the gauge `hub_held_bytes` measures.
const HELD: &str = "Bytes of the memory budget that requests, frames and caches hold.";

impl Hub {
    /// Returns the body of `GET /api/status` (docs/openapi.yaml).
    pub async fn status(&self, version: &'static str, protocol_version: u32) -> Result<Json, Error> {
        let (counts, bytes) = self.count_stored().await?;
        let namespace = self.config.namespace.as_str();
        // The counts were read from the database, so the place is known.
        let name = self.places.as_ref().map(|places| binding(places.placed.known_number()));
        let turn = self.turn();
        let (clis, web_clients) = turn.connections.client_counts();
        let queued_bytes = turn.write_queue.pending_bytes();
        drop(turn);
        let number = |number: u64| Json::of(&number);
        let storage = [
            ("bytes", Some(number(bytes))),
            ("maxBytes", self.config.quotas.max_bytes.map(number)),
            ("maxSessions", Some(Json::of(&self.config.quotas.max_sessions()))),
        ];
        let database = [
            ("name", name.map(|name| Json::of(&name))),
            ("isStalled", Some(Json::of(&(self.db.ms_until_stalled(self.rt.now()) == 0)))),
            ("queuedBytes", Some(Json::of(&queued_bytes))),
        ];
        let counted = |[one, other]: [&'static str; 2], first, second| {
            Json::object(&[(one, number(first)), (other, number(second))])
        };
        Ok(Json::object(&[
            ("version", Json::of(version)),
            ("protocolVersion", Json::of(&protocol_version)),
            ("namespace", Json::of(namespace)),
            ("hash", Json::of(&hash_of_namespace(namespace))),
            ("loadedAt", number(self.telemetry.loaded_at)),
            ("sessions", counted(["total", "active"], counts.sessions, counts.active_sessions)),
            ("machines", counted(["total", "online"], counts.machines, counts.online_machines)),
            ("messages", number(counts.messages)),
            ("storage", Json::object_of_some(&storage)),
            ("sockets", counted(["clis", "webClients"], clis, web_clients)),
            ("database", Json::object_of_some(&database)),
            ("faults", Json::of(&self.telemetry.faults())),
            ("pushes", Json::of(&self.push_log().into_iter().take(MAX_PUSHES).collect::<Vec<_>>())),
        ]))
    }

    /// Returns what the namespace has, and the bytes of its messages. Counts once in [`COUNTS_LIFETIME_MS`]: a count reads all sessions.
    async fn count_stored(&self) -> Result<(Counts, u64), Error> {
        let mut last = self.status_reads.lock().await;
        let now = self.rt.now();
        if let Some((_, counts, bytes)) = last.filter(|(at, ..)| now < at + COUNTS_LIFETIME_MS) {
            return Ok((counts, bytes));
        }
        self.flush().await?;
        let bytes = self.used_bytes().await?;
        let counts = counts::load(&self.db, &self.config.namespace).await?;
        *last = Some((now, counts, bytes));
        Ok((counts, bytes))
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
        let awake_seconds = (self.rt.now() - self.telemetry.loaded_at) / 1000;
        let turn = self.turn();
        let (clis, web_clients) = turn.connections.client_counts();
        let sessions = turn.liveness.live_session_count();
        let (queued, cached) = (turn.write_queue.pending_bytes(), turn.cache.cached_sessions());
        drop(turn);
        let usage = self.rt.database_usage();
        let (held, isolate_held) = (self.memory.budget.bytes(), self.memory.budget.memory_budget.bytes());
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
            gauge("hub_awake_seconds", "", "Time since the object was loaded.", awake_seconds),
            gauge("hub_database_batches", "", "Batches since the object was loaded.", usage.batches),
            gauge("hub_database_rows_read", "", "Rows read since the object was loaded.", usage.rows_read),
            gauge("hub_database_rows_written", "", "Rows written since the object was loaded.", usage.rows_written),
        ]
    }
}
