//! A limit on the bytes of large responses in memory. A large response is read whole and stays in memory until its
//! client has taken it, so its size is reserved before it is read. A reservation that does not fit is refused.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many bytes of large responses may be in memory at once.
#[derive(Debug)]
pub struct ResponseBudget {
    total_limit: usize,
    namespace_limit: usize,
    /// Bytes by namespace.
    reserved: Mutex<HashMap<String, usize>>,
}

/// Bytes of a [`ResponseBudget`], released on drop.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<ResponseBudget>,
    namespace: String,
    bytes: usize,
}

/// The text of a response.
#[derive(Debug)]
pub struct ResponseText {
    pub text: String,
    /// The reservation of a large text.
    pub reservation: Option<Reservation>,
}

impl ResponseBudget {
    /// Creates a budget with a limit for all namespaces together and one for each of them, in bytes.
    pub fn new(total_limit: usize, namespace_limit: usize) -> Arc<Self> {
        Arc::new(Self { total_limit, namespace_limit, reserved: Mutex::default() })
    }

    /// Reserves bytes for a response; `None` if they exceed a limit. A response of any size fits an unused budget.
    pub fn reserve(self: &Arc<Self>, namespace: &str, bytes: usize) -> Option<Reservation> {
        let mut reserved = self.reserved();
        let (total, own) = (reserved.values().sum::<usize>(), reserved.get(namespace).copied().unwrap_or(0));
        let fits = |reserved: usize, limit: usize| reserved == 0 || reserved + bytes <= limit;
        if !fits(total, self.total_limit) || !fits(own, self.namespace_limit) {
            return None;
        }
        *reserved.entry(namespace.to_owned()).or_default() += bytes;
        Some(Reservation { budget: Arc::clone(self), namespace: namespace.to_owned(), bytes })
    }

    fn reserved(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut reserved = self.budget.reserved();
        if let Some(bytes) = reserved.get_mut(&self.namespace) {
            *bytes = bytes.saturating_sub(self.bytes);
            if *bytes == 0 {
                reserved.remove(&self.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_are_limited_in_total_and_by_namespace() {
        let budget = ResponseBudget::new(10, 6);
        let first = budget.reserve("a", 4).unwrap();
        assert!(budget.reserve("a", 3).is_none(), "above the limit of a namespace");
        let second = budget.reserve("a", 2).unwrap();
        let third = budget.reserve("b", 4).unwrap();
        assert!(budget.reserve("c", 1).is_none(), "above the total limit");
        drop(first);
        assert!(budget.reserve("c", 5).is_none());
        let fourth = budget.reserve("c", 4).unwrap();
        drop((second, third, fourth));
        assert!(budget.reserved().is_empty());
    }

    #[test]
    fn a_response_larger_than_the_budget_fits_alone() {
        let budget = ResponseBudget::new(10, 6);
        let large = budget.reserve("a", 20).unwrap();
        assert!(budget.reserve("a", 1).is_none() && budget.reserve("b", 1).is_none());
        drop(large);
        assert!(budget.reserve("b", 1).is_some());
    }
}
