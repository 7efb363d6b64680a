//! Unique ids.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::hub::core::ports::Runtime;
use crate::model::ids::uuid_v7;

/// How many random bytes are read at once, for several ids.
const RANDOM_READ_BYTES: usize = 640;

pub struct Ids {
    rt: Arc<dyn Runtime>,
    unused_bytes: Mutex<Vec<u8>>,
    /// Makes ids unique when the random source fails.
    next: AtomicU64,
}

impl Ids {
    pub fn new(rt: Arc<dyn Runtime>) -> Self {
        // Greater than all ids of earlier instances.
        let next = AtomicU64::new(rt.now() << 12);
        Self { rt, unused_bytes: Mutex::default(), next }
    }

    pub fn uuid(&self) -> String {
        uuid_v7(self.rt.now(), &self.bytes())
    }

    /// Returns unique, not secret bytes: random ones, or a counter when the random source fails.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut unused = self.unused_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if unused.len() < N {
            // A call of the platform's random source takes longer than everything else that an id needs.
            unused.resize(RANDOM_READ_BYTES, 0);
            if self.rt.random(&mut unused).is_err() {
                unused.clear();
            }
        }
        if let Some(bytes) = unused.last_chunk().copied() {
            let remaining_bytes = unused.len() - N;
            unused.truncate(remaining_bytes);
            return bytes;
        }
        let mut bytes = [0; N];
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        // The count is in the last bytes, because the version and the variant of a UUID overwrite some bits of the first bytes.
        bytes.iter_mut().rev().zip(count.to_le_bytes()).for_each(|(byte, of_count)| *byte = of_count);
        bytes
    }
}
