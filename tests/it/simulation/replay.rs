//! What web clients must have heard, and when they may be told that they missed something: the log of events in the
//! database says so.

use std::collections::BTreeMap;

use serde_json::Value;
use session_gateway_hub::hub::events::log::{HEAD_KEY, LogHead};
use session_gateway_hub::hub::ports::Runtime;

use super::checks::{number, text};
use super::ledger::is_sign_of_life;
use super::world::{NEIGHBOUR, TEAM, World};

/// The log of a namespace as the database holds it.
struct Logged {
    /// Events by number.
    events: BTreeMap<u64, Value>,
    /// The numbers of what nobody hears once more: above the first one, up to the second.
    gaps: Vec<(u64, u64)>,
}

impl Logged {
    /// Whether an event was written with its change.
    fn knows(&self, number: u64) -> bool {
        self.events.contains_key(&number) || self.gaps.iter().any(|(floor, last)| *floor < number && number <= *last)
    }
}

impl World {
    /// Up to this number nothing is in a namespace's log.
    fn log_start(&self, place: usize) -> u64 {
        let note = self.objects[place].rt.kv_list(HEAD_KEY).pop();
        let start = match note.and_then(|(_, note)| LogHead::decode(&note)) {
            Some(LogHead::On(span)) => span.start,
            Some(LogHead::Off(last)) => last,
            None => 0,
        };
        start.max(self.log_floor(place))
    }

    /// Up to this number rows have been dropped, for more than the log keeps came after them. Only large events are so much.
    fn log_floor(&self, place: usize) -> u64 {
        let name = self.objects[place].name;
        let floor = format!("SELECT coalesce(min(floor), 0) FROM events WHERE namespace = '{name}'");
        self.large_left.map_or(0, |_| u64::try_from(self.db.sqlite.number(&floor)).unwrap())
    }

    /// The log of a namespace, a chain of rows.
    fn logged(&self, place: usize) -> Logged {
        let name = self.objects[place].name;
        let mut logged = Logged { events: BTreeMap::new(), gaps: Vec::new() };
        let rows = format!("SELECT floor, last, body FROM events WHERE namespace = '{name}' ORDER BY last");
        for row in self.db.sqlite.select(&rows) {
            let mut columns = row.into_iter();
            let (floor, last, body) = (number(columns.next()), number(columns.next()), text(columns.next()));
            if body.is_empty() {
                logged.gaps.push((floor, last));
            }
            for line in body.lines() {
                let mut parts = line.splitn(3, '\t');
                let number: u64 = parts.next().unwrap().parse().unwrap();
                logged.events.insert(number, serde_json::from_str(parts.nth(1).unwrap()).unwrap());
            }
        }
        logged
    }

    /// Whether a client that comes back may be told of a gap: the log began after what it heard last, or messages got new
    /// numbers since. No fault, no sleep and no restart makes one.
    pub fn may_have_missed(&self, at: usize) -> bool {
        let (place, last) = (self.webs[at].place, self.webs[at].last);
        last < self.log_start(place) || self.logged(place).gaps.iter().any(|(_, end)| *end > last)
    }

    /// Whether a client that is connected may be told of a gap: nobody knew what became of a batch that is not in the log
    /// because the log began meanwhile, or messages got new numbers and a fault came before anybody heard of it.
    pub fn may_be_told_of_gap(&self, at: usize) -> bool {
        let (place, last) = (self.webs[at].place, self.webs[at].last);
        let unlogged = self.db.was_in_doubt(self.objects[place].name) && last <= self.log_start(place);
        unlogged || self.db.faults() > 0 && self.logged(place).gaps.iter().any(|(_, end)| *end > last)
    }

    /// Whoever is connected has heard, in order and once, all that concerns him, and nothing that was not written. While it
    /// may have to be found out what became of a batch, that is what somebody else heard.
    pub fn check_events(&self) {
        for place in [TEAM, NEIGHBOUR] {
            let (logged, start) = (self.logged(place), self.log_start(place));
            let told = self.ledgers[place].events.keys().next_back().copied().unwrap_or(0);
            let up_to = if self.db.is_in_doubt(self.objects[place].name) { told } else { u64::MAX };
            // A sign of life that tells of no change is in no log.
            let changes = self.ledgers[place].events.iter().filter(|(_, event)| !is_sign_of_life(event));
            let mut changes: BTreeMap<u64, &Value> = changes.map(|(number, event)| (*number, event)).collect();
            changes.extend(logged.events.range(..=up_to).map(|(number, event)| (*number, event)));
            for web in self.webs.iter().filter(|web| web.place == place && web.link.is_some() && web.greeted) {
                for (number, event) in changes.range(web.since + 1..).filter(|(_, event)| web.hears(event)) {
                    let heard = web.heard.get(number);
                    let query = web.query();
                    assert!(heard == Some(*event), "a client of {query} has missed {number}: {event}, not {heard:?}");
                }
                for (number, event) in web.heard.range(start + 1..) {
                    let written = is_sign_of_life(event) || logged.knows(*number);
                    assert!(written, "a client of {} heard {number}, which was not written: {event}", web.query());
                }
            }
        }
    }
}
