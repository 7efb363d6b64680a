//! Limits on requests to push services: how many run at once, and how many a namespace sends per minute.

use std::collections::{BTreeMap, VecDeque};

use futures::channel::oneshot;

/// How many push messages a namespace sends in a minute. Each costs a millisecond or two of a thread that others may share.
pub const MAX_PUSHES_PER_MINUTE: u32 = 600;

/// How many requests to push services a namespace has in flight. The platform opens at most six connections of an object at
/// a time, including connections to D1. One is reserved for D1, so that slow push services cannot block the database.
const MAX_PUSHES_IN_FLIGHT: usize = 5;
/// How many requests a namespace has in flight to one push service: a slow service must leave slots to others.
const MAX_PUSHES_IN_FLIGHT_PER_SERVICE: usize = 3;

const WINDOW_MS: u64 = 60_000;

/// A rate limiter whose one-minute window starts with the first message in it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct RateLimiter {
    window_ends_at: u64,
    sent_count: u32,
}

impl RateLimiter {
    /// Counts a message. The error is the start of the next window. Times are in Unix milliseconds.
    pub fn try_acquire(&mut self, now: u64) -> Result<(), u64> {
        if self.window_ends_at <= now {
            *self = Self { window_ends_at: now + WINDOW_MS, sent_count: 0 };
        }
        if self.sent_count >= MAX_PUSHES_PER_MINUTE {
            return Err(self.window_ends_at);
        }
        self.sent_count += 1;
        Ok(())
    }

    pub fn encode(&self) -> String {
        format!("{} {}", self.window_ends_at, self.sent_count)
    }

    /// Parses what [`encode`](Self::encode) returned. A malformed text gives a new window.
    pub fn decode(text: &str) -> Self {
        let parse = |(ends_at, count): (&str, &str)| {
            Some(Self { window_ends_at: ends_at.parse().ok()?, sent_count: count.parse().ok()? })
        };
        text.split_once(' ').and_then(parse).unwrap_or_default()
    }
}

/// A semaphore over all requests to push services. A free slot goes to the service with the fewest requests in flight.
#[derive(Debug, Default)]
pub struct SendSlots {
    /// By the origin of the push service. The map is ordered, so that ties are resolved the same way in every run.
    services: BTreeMap<String, Service>,
}

#[derive(Debug, Default)]
struct Service {
    in_flight: usize,
    waiting: VecDeque<oneshot::Sender<()>>,
}

impl SendSlots {
    /// Requests a slot. The receiver resolves once it is granted; [`release`](Self::release) must follow.
    pub fn acquire(&mut self, service: &str) -> oneshot::Receiver<()> {
        let (sender, granted) = oneshot::channel();
        self.services.entry(service.to_owned()).or_default().waiting.push_back(sender);
        self.grant_free_slots();
        granted
    }

    /// Releases the connection to a push service, and grants it to a waiting request.
    pub fn release(&mut self, service: &str) {
        if let Some(known) = self.services.get_mut(service) {
            known.in_flight -= 1;
            if known.in_flight == 0 && known.waiting.is_empty() {
                self.services.remove(service);
            }
        }
        self.grant_free_slots();
    }

    fn grant_free_slots(&mut self) {
        while self.services.values().map(|service| service.in_flight).sum::<usize>() < MAX_PUSHES_IN_FLIGHT {
            let is_eligible = |service: &&mut Service| {
                service.in_flight < MAX_PUSHES_IN_FLIGHT_PER_SERVICE && !service.waiting.is_empty()
            };
            let next = self.services.values_mut().filter(is_eligible).min_by_key(|service| service.in_flight);
            let Some(service) = next else { return };
            // A dropped receiver takes no slot.
            let sender = service.waiting.pop_front();
            service.in_flight += usize::from(sender.is_some_and(|sender| sender.send(()).is_ok()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Granted = oneshot::Receiver<()>;

    /// Returns how many slots were granted since the last call.
    fn count_granted(receivers: &mut [Granted]) -> usize {
        receivers.iter_mut().filter_map(|granted| granted.try_recv().ok().flatten()).count()
    }

    fn acquire(slots: &mut SendSlots, service: &str, requests: usize) -> Vec<Granted> {
        (0..requests).map(|_| slots.acquire(service)).collect()
    }

    #[test]
    fn at_most_five_slots_are_granted_and_the_next_goes_to_the_service_with_the_fewest() {
        let mut slots = SendSlots::default();
        let mut granted = [acquire(&mut slots, "a", 5), acquire(&mut slots, "b", 5), acquire(&mut slots, "c", 5)];
        assert_eq!(granted.each_mut().map(|of_service| count_granted(of_service)), [3, 2, 0]);
        slots.release("a");
        assert_eq!(granted.each_mut().map(|of_service| count_granted(of_service)), [0, 0, 1]);
        slots.release("b");
        slots.release("a");
        assert_eq!(granted.each_mut().map(|of_service| count_granted(of_service)), [1, 1, 0]);
    }

    #[test]
    fn a_dropped_request_takes_no_slot_and_finished_services_are_removed() {
        let mut slots = SendSlots::default();
        let mut first = acquire(&mut slots, "a", MAX_PUSHES_IN_FLIGHT_PER_SERVICE);
        drop(slots.acquire("a"));
        let mut last = acquire(&mut slots, "a", 1);
        assert_eq!((count_granted(&mut first), count_granted(&mut last)), (MAX_PUSHES_IN_FLIGHT_PER_SERVICE, 0));
        slots.release("a");
        assert_eq!(count_granted(&mut last), 1);
        (0..MAX_PUSHES_IN_FLIGHT_PER_SERVICE).for_each(|_| slots.release("a"));
        assert!(slots.services.is_empty());
    }
}
