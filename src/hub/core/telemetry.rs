//! What an operator sees of a namespace: its log lines, its metrics and its latest faults.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde_json::value::RawValue;

use crate::hub::core::ports::Runtime;
use crate::log::{Level, LogLine};
use crate::memory_budget::lock;
use crate::metrics::Metrics;

/// How many faults are kept.
const MAX_FAULTS: usize = 20;

/// A fault of the hub that was logged.
#[derive(Debug, Clone, Serialize)]
pub struct Fault {
    /// In Unix milliseconds.
    pub at: u64,
    pub line: Box<RawValue>,
}

/// The metrics and the latest faults since the object was loaded.
pub struct Telemetry {
    pub(in crate::hub) rt: Arc<dyn Runtime>,
    pub metrics: Metrics,
    /// In Unix milliseconds.
    pub loaded_at: u64,
    faults: Mutex<VecDeque<Fault>>,
}

impl Telemetry {
    pub fn new(rt: Arc<dyn Runtime>) -> Self {
        let loaded_at = rt.now();
        Self { rt, metrics: Metrics::default(), loaded_at, faults: Mutex::default() }
    }

    /// Logs a line. A line of the level `warn` or `error` is a fault.
    pub fn log(&self, line: LogLine) {
        if matches!(line.level, Level::Warn | Level::Error)
            && let Ok(json) = RawValue::from_string(line.to_string())
        {
            let mut faults = lock(&self.faults);
            faults.push_front(Fault { at: self.rt.now(), line: json });
            faults.truncate(MAX_FAULTS);
        }
        self.rt.log(line);
    }

    /// Returns the latest faults, the newest first.
    pub fn faults(&self) -> Vec<Fault> {
        lock(&self.faults).iter().cloned().collect()
    }
}
