//! Counters and durations of one namespace since its object was loaded, and their text for Prometheus (text format 0.0.4).

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use strum::{EnumCount, VariantArray};

/// The upper bounds of the buckets of a [`Histogram`], in milliseconds.
const BOUNDS_MS: [u64; 10] = [5, 10, 25, 50, 100, 250, 1_000, 5_000, 10_000, 30_000];

const IS_OBSERVED: bool = cfg!(not(feature = "unobserved"));

/// What is counted. The counters of one metric are next to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumCount, VariantArray)]
pub enum Counter {
    CallAnswered,
    CallTimedOut,
    CallDisconnected,
    CallWithoutMethod,
    CallInvalid,
    CommitWritten,
    CommitFailed,
    Retry,
    Event,
    Gap,
    PushAccepted,
    PushGone,
    PushLimited,
    PushRetried,
    PushRejected,
}

impl Counter {
    /// Returns the metric and the label of the counter, and what the metric counts.
    fn describe(self) -> (&'static str, &'static str, &'static str) {
        const CALLS: (&str, &str) = ("hub_rpc_calls_total", "Calls of methods of CLIs.");
        const COMMITS: (&str, &str) = ("hub_commits_total", "Batches of changes that were written to the database.");
        const PUSHES: (&str, &str) = ("hub_pushes_total", "Push messages that were sent to push services.");
        let ((name, help), label) = match self {
            Self::CallAnswered => (CALLS, r#"outcome="answered""#),
            Self::CallTimedOut => (CALLS, r#"outcome="timeout""#),
            Self::CallDisconnected => (CALLS, r#"outcome="disconnected""#),
            Self::CallWithoutMethod => (CALLS, r#"outcome="no_method""#),
            Self::CallInvalid => (CALLS, r#"outcome="invalid""#),
            Self::CommitWritten => (COMMITS, r#"outcome="written""#),
            Self::CommitFailed => (COMMITS, r#"outcome="failed""#),
            Self::Retry => {
                (("hub_database_retries_total", "Queries that were repeated after a fault of the database."), "")
            }
            Self::Event => (("hub_events_total", "Events for web clients."), ""),
            Self::Gap => (("hub_event_gaps_total", "Notices to web clients that they missed events."), ""),
            Self::PushAccepted => (PUSHES, r#"outcome="accepted""#),
            Self::PushGone => (PUSHES, r#"outcome="gone""#),
            Self::PushLimited => (PUSHES, r#"outcome="rate_limited""#),
            Self::PushRetried => (PUSHES, r#"outcome="retried""#),
            Self::PushRejected => (PUSHES, r#"outcome="rejected""#),
        };
        (name, label, help)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumCount, VariantArray)]
pub enum DurationMetric {
    Call,
    Commit,
}

impl DurationMetric {
    fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::Call => ("hub_rpc_duration_seconds", "The time until a CLI answered a call."),
            Self::Commit => ("hub_commit_duration_seconds", "The time until the database had written a batch."),
        }
    }
}

/// A value at the time of the report.
pub struct Gauge {
    pub name: &'static str,
    /// Such as `kind="cli"`; empty for none.
    pub label: &'static str,
    pub help: &'static str,
    pub value: u64,
}

#[derive(Default)]
struct Histogram {
    /// The measurements in each bucket; the last bucket has no upper bound.
    buckets: [AtomicU64; BOUNDS_MS.len() + 1],
    total_ms: AtomicU64,
}

impl Histogram {
    fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }
}

#[derive(Default)]
pub struct Metrics {
    counters: [AtomicU64; Counter::COUNT],
    durations: [Histogram; DurationMetric::COUNT],
    /// The values at the last call of [`Metrics::take_changes`].
    reported: [AtomicU64; CHANGES],
}

/// The number of values of [`Metrics::take_changes`].
const CHANGES: usize = Counter::COUNT + 2 * DurationMetric::COUNT;

impl Metrics {
    pub fn count(&self, counter: Counter) {
        if let Some(value) = self.counters.get(counter as usize).filter(|_| IS_OBSERVED) {
            value.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn get(&self, counter: Counter) -> u64 {
        self.counters.get(counter as usize).map_or(0, |value| value.load(Ordering::Relaxed))
    }

    pub fn measure(&self, duration: DurationMetric, ms: u64) {
        let Some(histogram) = self.durations.get(duration as usize).filter(|_| IS_OBSERVED) else { return };
        let bucket = BOUNDS_MS.partition_point(|bound| *bound < ms);
        if let Some(count) = histogram.buckets.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
            histogram.total_ms.fetch_add(ms, Ordering::Relaxed);
        }
    }

    /// Returns how much each value has grown since the last call: the counters, then the number and the sum in milliseconds of each
    /// duration. `None` without a change.
    pub fn take_changes(&self) -> Option<Vec<f64>> {
        let counters = self.counters.iter().map(|counter| counter.load(Ordering::Relaxed));
        let durations =
            self.durations.iter().flat_map(|histogram| [histogram.count(), histogram.total_ms.load(Ordering::Relaxed)]);
        let growth = |(value, reported): (u64, &AtomicU64)| value - reported.swap(value, Ordering::Relaxed);
        let changes: Vec<u64> = counters.chain(durations).zip(&self.reported).map(growth).collect();
        let has_changed = changes.iter().any(|change| *change > 0);
        has_changed.then(|| changes.into_iter().map(|change| change as f64).collect())
    }

    /// Returns the text for Prometheus. Gauges of one name are next to each other.
    pub fn to_prometheus(&self, gauges: &[Gauge]) -> String {
        let mut text = PrometheusText::default();
        for counter in Counter::VARIANTS {
            let (name, label, help) = counter.describe();
            text.sample(name, "counter", help, label, self.get(*counter));
        }
        for Gauge { name, label, help, value } in gauges {
            text.sample(name, "gauge", help, label, *value);
        }
        for (duration, histogram) in DurationMetric::VARIANTS.iter().zip(&self.durations) {
            let (name, help) = duration.describe();
            text.histogram(name, help, histogram);
        }
        text.text
    }
}

#[derive(Default)]
struct PrometheusText {
    text: String,
    name: &'static str,
}

impl PrometheusText {
    fn header(&mut self, name: &'static str, kind: &str, help: &str) {
        if self.name != name {
            self.name = name;
            let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        }
    }

    fn sample(&mut self, name: &'static str, kind: &str, help: &str, label: &str, value: u64) {
        self.header(name, kind, help);
        let braces = if label.is_empty() { String::new() } else { format!("{{{label}}}") };
        let _ = writeln!(self.text, "{name}{braces} {value}");
    }

    fn histogram(&mut self, name: &'static str, help: &str, histogram: &Histogram) {
        self.header(name, "histogram", help);
        let mut count = 0;
        let bounds = BOUNDS_MS.iter().map(|ms| seconds(*ms)).chain(["+Inf".to_owned()]);
        for (bound, in_bucket) in bounds.zip(&histogram.buckets) {
            count += in_bucket.load(Ordering::Relaxed);
            let _ = writeln!(self.text, r#"{name}_bucket{{le="{bound}"}} {count}"#);
        }
        let total = seconds(histogram.total_ms.load(Ordering::Relaxed));
        let _ = writeln!(self.text, "{name}_sum {total}\n{name}_count {count}");
    }
}

/// Formats milliseconds as seconds without needless zeros.
fn seconds(ms: u64) -> String {
    let text = format!("{}.{:03}", ms / 1000, ms % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_taken_once() {
        let metrics = Metrics::default();
        assert_eq!(metrics.take_changes(), None);
        metrics.count(Counter::Gap);
        metrics.measure(DurationMetric::Commit, 7);
        metrics.measure(DurationMetric::Commit, 3);
        let changes = metrics.take_changes().unwrap();
        assert_eq!(changes.len(), CHANGES);
        assert_eq!(changes[Counter::Gap as usize], 1.0);
        assert_eq!(changes[Counter::COUNT..], [0.0, 0.0, 2.0, 10.0]);
        assert_eq!(metrics.take_changes(), None);
        metrics.count(Counter::Gap);
        assert_eq!(metrics.take_changes().unwrap().iter().sum::<f64>(), 1.0);
    }

    #[test]
    fn the_text_for_prometheus_has_each_counter_gauge_and_bucket() {
        let metrics = Metrics::default();
        metrics.count(Counter::CallAnswered);
        metrics.count(Counter::CallAnswered);
        metrics.count(Counter::Gap);
        for ms in [0, 5, 6, 1_500, 60_000] {
            metrics.measure(DurationMetric::Call, ms);
        }
        let gauge = |label, value| Gauge { name: "hub_sockets", label, help: "Open sockets.", value };
        let text = metrics.to_prometheus(&[gauge(r#"kind="cli""#, 3), gauge(r#"kind="web""#, 4)]);
        let lines: Vec<&str> = text.lines().collect();
        for expected in [
            "# TYPE hub_rpc_calls_total counter",
            r#"hub_rpc_calls_total{outcome="answered"} 2"#,
            r#"hub_rpc_calls_total{outcome="timeout"} 0"#,
            "hub_event_gaps_total 1",
            r#"hub_sockets{kind="web"} 4"#,
            r#"hub_rpc_duration_seconds_bucket{le="0.005"} 2"#,
            r#"hub_rpc_duration_seconds_bucket{le="0.01"} 3"#,
            r#"hub_rpc_duration_seconds_bucket{le="5"} 4"#,
            r#"hub_rpc_duration_seconds_bucket{le="30"} 4"#,
            r#"hub_rpc_duration_seconds_bucket{le="+Inf"} 5"#,
            "hub_rpc_duration_seconds_sum 61.511",
            "hub_rpc_duration_seconds_count 5",
        ] {
            assert!(lines.contains(&expected), "{expected}\n{text}");
        }
        let types = |name: &str| text.matches(&format!("# TYPE {name} ")).count();
        assert_eq!(["hub_rpc_calls_total", "hub_sockets", "hub_commits_total"].map(types), [1, 1, 1]);
    }
}
