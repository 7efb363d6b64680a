//! How many push services are called at a time, and how often in a minute. State machines without IO.

use std::collections::{BTreeMap, VecDeque};

use futures::channel::oneshot;

/// How many calls a namespace has under way, of all its notifications together. The platform opens six connections at a time
/// for all that an object does, and those to D1 are among them: one is left, or a push service that does not answer would
/// hold up what is read and written.
const LANES: usize = 5;
/// How many of them may be of one push service: one that does not answer leaves the others some.
const LANES_OF_SERVICE: usize = 3;

/// How many pushes a namespace sends within a minute. Each costs a millisecond or two of a thread that it may share with other
/// namespaces, and goes to an address that a client wrote down.
pub const PUSHES_A_MINUTE: u32 = 600;
const MINUTE_MS: u64 = 60_000;

/// How many pushes were sent in a minute that began with the first of them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Minute {
    ends: u64,
    sent: u32,
}

impl Minute {
    /// A push is about to be sent. The error says when it may be: this minute had enough of them. Times in Unix milliseconds.
    pub fn take(&mut self, now: u64) -> Result<(), u64> {
        if self.ends <= now {
            *self = Self { ends: now + MINUTE_MS, sent: 0 };
        }
        if self.sent >= PUSHES_A_MINUTE {
            return Err(self.ends);
        }
        self.sent += 1;
        Ok(())
    }

    /// The minute as the notebook has it.
    pub fn note(&self) -> String {
        format!("{} {}", self.ends, self.sent)
    }

    /// The minute of a note; a new one, should it not be readable.
    pub fn restore(note: &str) -> Self {
        let read = |(ends, sent): (&str, &str)| Some(Self { ends: ends.parse().ok()?, sent: sent.parse().ok()? });
        note.split_once(' ').and_then(read).unwrap_or_default()
    }
}

/// The calls of a namespace: who has a lane, and who waits for one.
#[derive(Debug, Default)]
pub struct Lanes {
    /// By the push services' origins; the order decides between those who have waited alike.
    services: BTreeMap<String, Service>,
}

#[derive(Debug, Default)]
struct Service {
    under_way: usize,
    waiting: VecDeque<oneshot::Sender<()>>,
}

impl Lanes {
    /// Somebody wants to call a push service: at once, or when the receiver hears so.
    pub fn enter(&mut self, service: &str) -> oneshot::Receiver<()> {
        let (sender, turn) = oneshot::channel();
        self.services.entry(service.to_owned()).or_default().waiting.push_back(sender);
        self.admit();
        turn
    }

    /// A call is over.
    pub fn leave(&mut self, service: &str) {
        if let Some(known) = self.services.get_mut(service) {
            known.under_way -= 1;
            if known.under_way == 0 && known.waiting.is_empty() {
                self.services.remove(service);
            }
        }
        self.admit();
    }

    /// Gives free lanes to those who wait, first to the push service that has the fewest.
    fn admit(&mut self) {
        while self.services.values().map(|service| service.under_way).sum::<usize>() < LANES {
            let waits = |service: &&mut Service| service.under_way < LANES_OF_SERVICE && !service.waiting.is_empty();
            let next = self.services.values_mut().filter(waits).min_by_key(|service| service.under_way);
            let Some(service) = next else { return };
            let sender = service.waiting.pop_front();
            service.under_way += usize::from(sender.is_some_and(|sender| sender.send(()).is_ok()));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    type Turn = oneshot::Receiver<()>;

    /// How many of these have had their turn.
    fn admitted(turns: &mut [Turn]) -> usize {
        turns.iter_mut().filter_map(|turn| turn.try_recv().ok().flatten()).count()
    }

    fn enter(lanes: &mut Lanes, service: &str, calls: usize) -> Vec<Turn> {
        (0..calls).map(|_| lanes.enter(service)).collect()
    }

    #[test]
    fn a_push_service_that_does_not_answer_leaves_lanes_to_the_others() {
        let mut lanes = Lanes::default();
        let mut dead = enter(&mut lanes, "dead", 50);
        assert_eq!(admitted(&mut dead), LANES_OF_SERVICE);
        let mut well = enter(&mut lanes, "well", 10);
        for _ in 0..4 {
            assert_eq!(admitted(&mut well), LANES - LANES_OF_SERVICE);
            (0..LANES - LANES_OF_SERVICE).for_each(|_| lanes.leave("well"));
        }
        assert_eq!(admitted(&mut dead), 0, "its lanes are taken");
    }

    #[test]
    fn beyond_so_many_a_minute_pushes_wait_for_the_next_one_also_over_a_sleep() {
        let mut minute = Minute::default();
        for sent in 0..u64::from(PUSHES_A_MINUTE) {
            assert_eq!(minute.take(1_000 + sent), Ok(()));
        }
        assert_eq!(minute.take(2_000), Err(61_000));
        let mut minute = Minute::restore(&minute.note());
        assert_eq!(minute.take(60_999), Err(61_000));
        assert_eq!(minute.take(61_000), Ok(()));
        assert_eq!(minute, Minute { ends: 121_000, sent: 1 });
        assert_eq!(Minute::restore("x"), Minute::default());
    }

    #[test]
    fn no_more_than_five_are_called_and_whoever_has_the_fewest_lanes_is_next() {
        let mut lanes = Lanes::default();
        let mut turns = [enter(&mut lanes, "a", 5), enter(&mut lanes, "b", 5), enter(&mut lanes, "c", 5)];
        assert_eq!(turns.each_mut().map(|turns| admitted(turns)), [3, 2, 0]);
        lanes.leave("a");
        assert_eq!(turns.each_mut().map(|turns| admitted(turns)), [0, 0, 1]);
        lanes.leave("b");
        lanes.leave("a");
        assert_eq!(turns.each_mut().map(|turns| admitted(turns)), [1, 1, 0]);
    }

    #[test]
    fn whoever_gave_up_takes_no_lane_and_nothing_is_left_of_calls_that_are_over() {
        let mut lanes = Lanes::default();
        let mut first = enter(&mut lanes, "a", LANES_OF_SERVICE);
        drop(lanes.enter("a"));
        let mut last = enter(&mut lanes, "a", 1);
        assert_eq!((admitted(&mut first), admitted(&mut last)), (LANES_OF_SERVICE, 0));
        lanes.leave("a");
        assert_eq!(admitted(&mut last), 1);
        (0..LANES_OF_SERVICE).for_each(|_| lanes.leave("a"));
        assert!(lanes.services.is_empty());
    }
}
