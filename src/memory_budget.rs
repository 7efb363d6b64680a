//! The memory budget: how many bytes of buffers the namespaces of one isolate hold.
//!
//! **Problem**: the platform may run the worker and the objects of several namespaces in one isolate. When the isolate needs
//! more than 128 MB, the platform ends the worker and all these objects.
//! **Limit**: the buffers of all namespaces take at most [`MAX_BUFFER_BYTES`], with the exceptions in docs/design/memory.md.
//! Each namespace can always hold its share of [`NAMESPACE_SHARE_BYTES`]. Bytes beyond the share come from a pool that is
//! common to all namespaces. Caches shrink before a reservation is refused.
//!
//! A reservation that does not fit is refused at once; its caller refuses the request, or tries again after a pause. A release
//! can't wake callers that wait in another namespace, because a task may use only the sockets and timers of its own object.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::limits::EDGE_TIMEOUT_MS;

/// The total size of the buffers of all namespaces in an isolate, in bytes: half of its memory. JavaScript needs the other half.
pub const MAX_BUFFER_BYTES: usize = 64 * 1024 * 1024;
/// The part of [`MAX_BUFFER_BYTES`] that namespaces may use beyond their shares, in bytes. The other bytes are the shares
/// of eight namespaces. The pool shrinks when more than eight shares are in use.
pub const MAX_POOL_BYTES: usize = 48 * 1024 * 1024;
/// The bytes that are always free for a namespace: enough for the largest message of one row (1.5 MB), because a change takes over
/// the memory of its frame. Not more, because the number of namespaces in an isolate is unknown.
pub const NAMESPACE_SHARE_BYTES: usize = 2 * 1024 * 1024;
const _: () = assert!(MAX_POOL_BYTES + 8 * NAMESPACE_SHARE_BYTES == MAX_BUFFER_BYTES);

/// A reservation may exceed the pool while at most this much of it is in use, in bytes. A session with two values of 30 MiB needs this.
const MAX_POOL_USE_FOR_OVERSIZED: usize = 8 * 1024 * 1024;

#[derive(Default)]
pub struct MemoryBudget {
    /// The bytes that namespaces hold within their shares.
    share_bytes: AtomicUsize,
    /// The bytes that namespaces hold beyond their shares.
    pool_bytes: AtomicUsize,
    namespaces: Mutex<Vec<(String, Weak<NamespaceBudget>)>>,
    caches: Mutex<Vec<Weak<dyn Evictable>>>,
    /// Whether a frame that is not yet in wasm memory waits for memory.
    has_waiting_frame: AtomicBool,
    pub reads: ReadQueues,
}

/// The queues in which reads of the database wait.
#[derive(Default)]
pub struct ReadQueues {
    /// Reads without a reservation.
    pub small: Arc<ReadQueue>,
    /// Reads that reserve their bytes.
    pub large: Arc<ReadQueue>,
}

/// A cache that can shrink, because its values can be read again.
pub trait Evictable: Send + Sync {
    /// Evicts values of at least `bytes`, or all values that can be evicted. Must not wait or use the runtime.
    fn evict(&self, bytes: usize);
}

/// The bytes that one namespace holds.
pub struct NamespaceBudget {
    pub memory_budget: Arc<MemoryBudget>,
    bytes: AtomicUsize,
    pub reads: ReadQueues,
}

/// Bytes of a [`NamespaceBudget`], released on drop.
pub struct Reservation {
    budget: Arc<NamespaceBudget>,
    bytes: usize,
}

/// A text of a response, and the memory that is reserved for it.
#[derive(Debug)]
pub struct ResponseText {
    pub text: String,
    pub reservation: Option<Reservation>,
}

/// The place of the one frame that waits for memory outside of wasm memory, released on drop.
pub struct WaitingPlace(Arc<MemoryBudget>);

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        self.0.has_waiting_frame.store(false, Ordering::Relaxed);
    }
}

impl MemoryBudget {
    /// Returns the budget of a namespace. All users of a namespace share one budget.
    pub fn namespace_budget(self: &Arc<Self>, namespace: &str) -> Arc<NamespaceBudget> {
        let mut namespaces = lock(&self.namespaces);
        namespaces.retain(|(_, budget)| budget.strong_count() > 0);
        if let Some((_, budget)) = namespaces.iter().find(|(name, _)| name == namespace)
            && let Some(budget) = budget.upgrade()
        {
            return budget;
        }
        let budget = Arc::new(NamespaceBudget {
            memory_budget: Arc::clone(self),
            bytes: AtomicUsize::new(0),
            reads: ReadQueues::default(),
        });
        namespaces.push((namespace.to_owned(), Arc::downgrade(&budget)));
        budget
    }

    /// Registers a cache, which is shrunk before a reservation is refused.
    pub fn add_cache(&self, cache: Weak<dyn Evictable>) {
        let mut caches = lock(&self.caches);
        caches.retain(|cache| cache.strong_count() > 0);
        caches.push(cache);
    }

    /// Returns the bytes that all namespaces hold.
    pub fn bytes(&self) -> usize {
        self.share_bytes.load(Ordering::Relaxed) + self.pool_bytes.load(Ordering::Relaxed)
    }

    /// Returns how many bytes must be released until `bytes` of the pool are free.
    pub fn shortfall(&self, bytes: usize) -> usize {
        let shares = self.share_bytes.load(Ordering::Relaxed);
        let limit = MAX_POOL_BYTES.min(MAX_BUFFER_BYTES.saturating_sub(shares));
        (self.pool_bytes.load(Ordering::Relaxed) + bytes).saturating_sub(limit)
    }

    /// Shrinks caches until `shortfall` returns 0. Bytes that a cache frees within its namespace's share do not add to the pool.
    fn shrink_caches(&self, shortfall: impl Fn() -> usize) {
        let caches: Vec<_> = lock(&self.caches).iter().filter_map(Weak::upgrade).collect();
        for cache in caches {
            match shortfall() {
                0 => return,
                bytes => cache.evict(bytes),
            }
        }
    }
}

impl NamespaceBudget {
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Reserves bytes; `None` if the pool has too few, even after the caches have shrunk. May exceed a nearly unused pool.
    pub fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let mut reservation = self.empty_reservation();
        self.make_room(bytes).then(|| {
            reservation.resize(bytes);
            reservation
        })
    }

    /// Returns a reservation of no bytes, to be [resized](Reservation::resize).
    pub fn empty_reservation(self: &Arc<Self>) -> Reservation {
        Reservation { budget: Arc::clone(self), bytes: 0 }
    }

    /// Shrinks the caches if a reservation of `bytes` does not fit. Returns whether it fits now.
    pub fn make_room(&self, bytes: usize) -> bool {
        let fits_oversized = || {
            let pool_bytes = self.memory_budget.pool_bytes.load(Ordering::Relaxed);
            bytes > MAX_POOL_BYTES && pool_bytes <= MAX_POOL_USE_FOR_OVERSIZED
        };
        fits_oversized() || self.make_room_with_headroom(bytes, 0, 0) || fits_oversized()
    }

    /// Like [`make_room`](Self::make_room), but leaves `headroom_bytes` of the pool free, and accepts no reservation that is larger than
    /// the pool. The namespace's own cache of `own_cache_bytes` does not count against its share, because it can be evicted later.
    pub fn make_room_with_headroom(&self, bytes: usize, headroom_bytes: usize, own_cache_bytes: usize) -> bool {
        let shortfall = || {
            let held = self.bytes().saturating_sub(own_cache_bytes);
            match bytes.min((held + bytes).saturating_sub(NAMESPACE_SHARE_BYTES)) {
                0 => 0,
                from_pool => self.memory_budget.shortfall(from_pool + headroom_bytes),
            }
        };
        shortfall() == 0 || {
            self.memory_budget.shrink_caches(shortfall);
            shortfall() == 0
        }
    }

    /// Reserves the place for a frame that waits for memory; `None` if it is taken. The isolate has only one such place, because
    /// the waiting frame is already in JavaScript's memory.
    pub fn reserve_waiting_place(&self) -> Option<WaitingPlace> {
        let is_taken = self.memory_budget.has_waiting_frame.swap(true, Ordering::Relaxed);
        (!is_taken).then(|| WaitingPlace(Arc::clone(&self.memory_budget)))
    }

    /// Adds a signed difference, in two's complement, to the bytes that the budget holds.
    fn add(&self, difference: usize) {
        let before = self.bytes.fetch_add(difference, Ordering::Relaxed);
        let after = before.wrapping_add(difference);
        let add_part = |counter: &AtomicUsize, part: fn(usize) -> usize| {
            counter.fetch_add(part(after).wrapping_sub(part(before)), Ordering::Relaxed);
        };
        add_part(&self.memory_budget.share_bytes, |bytes| bytes.min(NAMESPACE_SHARE_BYTES));
        add_part(&self.memory_budget.pool_bytes, |bytes| bytes.saturating_sub(NAMESPACE_SHARE_BYTES));
    }
}

impl Reservation {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the number of bytes. Never fails: call [`NamespaceBudget::make_room`] before.
    pub fn resize(&mut self, bytes: usize) {
        self.budget.add(bytes.wrapping_sub(self.bytes));
        self.bytes = bytes;
    }

    /// Adds bytes like [`resize`](Self::resize).
    pub fn grow(&mut self, bytes: usize) {
        self.resize(self.bytes + bytes);
    }

    /// Releases some of the reserved bytes, at most all of them.
    pub fn release_part(&mut self, bytes: usize) {
        self.resize(self.bytes.saturating_sub(bytes));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.resize(0);
    }
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reservation({})", self.bytes)
    }
}

/// Reads of one kind, in the order in which they joined: each read computes how long it must wait, because only a limited number of
/// reads run at a time. Each entry is the time at which a read expires, in Unix milliseconds,
/// or 0 if the read has ended. Entries expire, because the platform may end a request without dropping its [`ReadPlace`].
#[derive(Default)]
pub struct ReadQueue(Mutex<Vec<Arc<AtomicU64>>>);

/// The place of a read in its queue, released on drop.
pub struct ReadPlace {
    queue: Arc<ReadQueue>,
    expires_at: Arc<AtomicU64>,
}

impl ReadQueue {
    /// Adds a read, which ends within [`EDGE_TIMEOUT_MS`]. `now` is in Unix milliseconds.
    pub fn join(self: &Arc<Self>, now: u64) -> ReadPlace {
        let expires_at = Arc::new(AtomicU64::new(now + EDGE_TIMEOUT_MS));
        lock(&self.0).push(Arc::clone(&expires_at));
        ReadPlace { queue: Arc::clone(self), expires_at }
    }
}

impl ReadPlace {
    /// Returns how many full rounds of `max_concurrent` reads are ahead of this read; 0 if this read may run now.
    pub fn rounds_ahead(&self, now: u64, max_concurrent: usize) -> u64 {
        let mut reads = lock(&self.queue.0);
        reads.retain(|expires_at| expires_at.load(Ordering::Relaxed) > now);
        let position = reads.iter().position(|expires_at| Arc::ptr_eq(expires_at, &self.expires_at));
        (position.unwrap_or(0) / max_concurrent) as u64
    }
}

impl Drop for ReadPlace {
    fn drop(&mut self) {
        self.expires_at.store(0, Ordering::Relaxed);
    }
}

/// Locks a mutex, also after a panic of another holder.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: usize = NAMESPACE_SHARE_BYTES;
    const POOL: usize = MAX_POOL_BYTES;

    #[test]
    fn a_namespace_gets_its_share_although_another_namespace_holds_the_pool() {
        let memory_budget = Arc::new(MemoryBudget::default());
        let (first, second) = (memory_budget.namespace_budget("a"), memory_budget.namespace_budget("b"));
        let held = first.reserve(POOL + SHARE).unwrap();
        assert!(first.reserve(1).is_none());
        let share = second.reserve(SHARE).unwrap();
        assert!(second.reserve(1).is_none(), "the pool is used up");
        drop(share);
        assert!(second.reserve(SHARE + 1).is_none());
        drop(held);
        assert!(second.reserve(POOL + SHARE).is_some());
        assert_eq!(memory_budget.bytes(), 0);
    }

    #[test]
    fn the_limit_holds_for_all_namespaces_together() {
        let memory_budget = Arc::new(MemoryBudget::default());
        let namespaces: Vec<_> = (0..20).map(|n| memory_budget.namespace_budget(&n.to_string())).collect();
        let mut reservations = Vec::new();
        for budget in namespaces.iter().take(16) {
            while let Some(reservation) = budget.reserve(1 << 20) {
                reservations.push(reservation);
            }
        }
        assert!(memory_budget.bytes() <= POOL + 16 * SHARE);
        drop(reservations);
        let shares: Vec<_> = namespaces.iter().map(|budget| budget.reserve(SHARE).unwrap()).collect();
        let rest = MAX_BUFFER_BYTES - memory_budget.bytes();
        assert!(namespaces[0].reserve(rest + 1).is_none() && namespaces[0].reserve(rest).is_some());
        drop(shares);
    }

    #[test]
    fn a_reservation_larger_than_the_pool_needs_a_nearly_unused_pool() {
        let memory_budget = Arc::new(MemoryBudget::default());
        let (first, second) = (memory_budget.namespace_budget("a"), memory_budget.namespace_budget("b"));
        let small = second.reserve(SHARE + MAX_POOL_USE_FOR_OVERSIZED).unwrap();
        let large = first.reserve(2 * POOL).unwrap();
        assert!(first.reserve(1).is_none() && second.reserve(1).is_none());
        drop(small);
        assert!(second.reserve(SHARE).is_some() && second.reserve(SHARE + 1).is_none());
        drop(large);
        let busy = second.reserve(SHARE + MAX_POOL_USE_FOR_OVERSIZED + 1).unwrap();
        assert!(first.reserve(2 * POOL).is_none());
        drop(busy);
    }

    #[test]
    fn the_budget_of_a_namespace_is_shared_while_it_is_in_use() {
        let memory_budget = Arc::new(MemoryBudget::default());
        let budget = memory_budget.namespace_budget("a");
        let mut reservation = memory_budget.namespace_budget("a").reserve(3).unwrap();
        assert_eq!(budget.bytes.load(Ordering::Relaxed), 3);
        reservation.resize(SHARE + 5);
        assert_eq!(memory_budget.pool_bytes.load(Ordering::Relaxed), 5);
        reservation.resize(1);
        assert_eq!((memory_budget.bytes(), reservation.bytes()), (1, 1));
        drop((budget, reservation));
        memory_budget.namespace_budget("b");
        assert_eq!(lock(&memory_budget.namespaces).len(), 1, "unused budgets are forgotten");
    }

    struct Cache(Mutex<Reservation>);

    impl Evictable for Cache {
        fn evict(&self, bytes: usize) {
            let mut memory = lock(&self.0);
            let remaining = memory.bytes().saturating_sub(bytes);
            memory.resize(remaining);
        }
    }

    #[test]
    fn the_next_cache_shrinks_if_the_first_one_is_within_its_namespace_s_share() {
        let memory_budget = Arc::new(MemoryBudget::default());
        let namespaces = ["quiet", "small"].map(|name| memory_budget.namespace_budget(name));
        let caches = namespaces.each_ref().map(|budget| {
            let cache = Arc::new(Cache(Mutex::new(budget.reserve(SHARE).unwrap())));
            memory_budget.add_cache(Arc::downgrade(&cache) as Weak<dyn Evictable>);
            cache
        });
        let pool = memory_budget.namespace_budget("large").reserve(POOL + SHARE).unwrap();
        assert!(namespaces[1].reserve(SHARE / 4).is_some(), "its own cache shrinks");
        drop((caches, pool));
    }

    #[test]
    fn caches_shrink_before_a_reservation_is_refused() {
        let memory_budget = Arc::new(MemoryBudget::default());
        let (first, second) = (memory_budget.namespace_budget("a"), memory_budget.namespace_budget("b"));
        let cache = Arc::new(Cache(Mutex::new(first.reserve(POOL).unwrap())));
        memory_budget.add_cache(Arc::downgrade(&cache) as Weak<dyn Evictable>);
        let reservation = second.reserve(SHARE + SHARE + 7).unwrap();
        assert_eq!(lock(&cache.0).bytes(), POOL - 7, "the cache shrinks only as far as necessary");
        drop(cache);
        assert!(first.reserve(POOL).is_none(), "the reservation remains");
        drop(reservation);
        assert!(first.reserve(POOL).is_some());
    }

    #[test]
    fn a_read_that_is_never_dropped_expires() {
        let queue = Arc::new(ReadQueue::default());
        std::mem::forget(queue.join(5));
        let place = queue.join(6);
        assert_eq!(place.rounds_ahead(4 + EDGE_TIMEOUT_MS, 1), 1);
        assert_eq!(place.rounds_ahead(5 + EDGE_TIMEOUT_MS, 1), 0);
    }
}
