//! Which namespaces of an isolate wrote to the database last.

use std::sync::Mutex;

use crate::memory_budget::lock;
use crate::model::namespace::Namespace;

/// A namespace counts as a writer for this long after a write, in milliseconds.
const RECENT_MS: u64 = 10_000;

/// The last writers of an isolate. Shared by the hubs of the isolate.
#[derive(Debug, Default)]
pub struct RecentWriters(Mutex<Writers>);

#[derive(Debug, Default)]
struct Writers {
    /// The namespace that wrote last, with the time of its last write in Unix milliseconds.
    last: Option<(Namespace, u64)>,
    /// The time of the last write of any other namespace.
    last_other_write_at: Option<u64>,
}

impl RecentWriters {
    /// Records that a namespace has written. Returns whether another namespace wrote within the last ten seconds.
    pub fn record(&self, namespace: &Namespace, now: u64) -> bool {
        let mut writers = lock(&self.0);
        if let Some((_, at)) = writers.last.take_if(|(last, _)| last != namespace) {
            writers.last_other_write_at = Some(at);
        }
        writers.last = Some((namespace.clone(), now));
        writers.last_other_write_at.is_some_and(|at| now.saturating_sub(at) <= RECENT_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_namespace_counts_as_a_writer_for_ten_seconds_after_its_last_write() {
        let writers = RecentWriters::default();
        let [a, b, c] = ["a", "b", "c"].map(|name| Namespace::parse(name).unwrap());
        assert!(!writers.record(&a, 10_000));
        assert!(!writers.record(&a, 11_000));
        assert!(writers.record(&b, 12_000));
        assert!(writers.record(&a, 22_000));
        assert!(!writers.record(&a, 22_001));
        assert!(writers.record(&c, 30_000));
        assert!(writers.record(&b, 40_000));
        assert!(!writers.record(&c, 50_001));
    }
}
