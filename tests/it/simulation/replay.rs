//! Checks of event delivery against the event log in the database: which events web clients must have received, and when a gap
//! is allowed.

use std::collections::BTreeMap;

use serde_json::Value;
use session_gateway_hub::hub::events::log::{HEAD_KEY, LogHead};
use session_gateway_hub::hub::ports::Runtime;

use super::oracle::reports_keep_alive;
use super::rows::{number, text};
use super::world::{NEIGHBOUR, TEAM, World};

/// The event log of a namespace in the database.
struct Logged {
    /// Events by number.
    events: BTreeMap<u64, Value>,
    /// Ranges of event numbers without events: from above the first number to the second.
    gaps: Vec<(u64, u64)>,
}

impl Logged {
    /// Whether an event was committed with its change.
    fn contains(&self, number: u64) -> bool {
        self.events.contains_key(&number) || self.gaps.iter().any(|(floor, last)| *floor < number && number <= *last)
    }
}

impl World {
    /// The log has no events up to this number.
    fn log_start(&self, ns: usize) -> u64 {
        let note = self.objects[ns].rt.kv_list(HEAD_KEY).pop();
        let start = match note.and_then(|(_, note)| LogHead::decode(&note)) {
            Some(LogHead::On(span)) => span.start,
            Some(LogHead::Off(last)) => last,
            None => 0,
        };
        start.max(self.log_floor(ns))
    }

    /// Rows up to this number were dropped because the log is full, which happens only with large events.
    fn log_floor(&self, ns: usize) -> u64 {
        let name = self.objects[ns].name;
        let floor = format!("SELECT coalesce(min(floor), 0) FROM events WHERE namespace = '{name}'");
        self.large_left.map_or(0, |_| u64::try_from(self.db.sqlite.number(&floor)).unwrap())
    }

    /// Reads the event log of a namespace.
    fn read_log(&self, ns: usize) -> Logged {
        let name = self.objects[ns].name;
        let mut logged = Logged { events: BTreeMap::new(), gaps: Vec::new() };
        let rows = format!("SELECT floor, last, body FROM events WHERE namespace = '{name}' ORDER BY last");
        for row in self.db.sqlite.select(&rows) {
            let mut columns = row.into_iter();
            let (floor, last, body) = (number(columns.next()), number(columns.next()), text(columns.next()));
            if body.is_empty() {
                logged.gaps.push((floor, last));
            }
            for line in body.lines() {
                let mut columns = line.splitn(3, '\t');
                let number: u64 = columns.next().unwrap().parse().unwrap();
                logged.events.insert(number, serde_json::from_str(columns.nth(1).unwrap()).unwrap());
            }
        }
        logged
    }

    /// Whether a client that resumes may receive a gap: its last event is before the start of the log, or a merge has renumbered
    /// messages since. Faults, hibernation and restarts cause no gaps.
    pub fn may_miss_events(&self, i: usize) -> bool {
        let (ns, last) = (self.webs[i].ns, self.webs[i].last);
        last < self.log_start(ns) || self.read_log(ns).gaps.iter().any(|(_, end)| *end > last)
    }

    /// Whether a connected client may receive a gap: the outcome of a batch was unknown when the log was started, or a fault
    /// occurred in a merge.
    pub fn may_receive_gap(&self, i: usize) -> bool {
        let (ns, last) = (self.webs[i].ns, self.webs[i].last);
        let unlogged = self.db.had_unknown_outcome(self.objects[ns].name) && last <= self.log_start(ns);
        unlogged || self.db.faults() > 0 && self.read_log(ns).gaps.iter().any(|(_, end)| *end > last)
    }

    /// Checks that each connected client has received all events of its subscription exactly once and in order, and no event
    /// that was not committed. While the outcome of a batch is unknown, the reference is what other clients received.
    pub fn check_events(&self) {
        for ns in [TEAM, NEIGHBOUR] {
            let (logged, start) = (self.read_log(ns), self.log_start(ns));
            let observed = self.oracles[ns].events.keys().next_back().copied().unwrap_or(0);
            let up_to = if self.db.has_unknown_outcome(self.objects[ns].name) { observed } else { u64::MAX };
            // KeepAlive events without a change are not logged.
            let changes = self.oracles[ns].events.iter().filter(|(_, event)| !reports_keep_alive(event));
            let mut changes: BTreeMap<u64, &Value> = changes.map(|(number, event)| (*number, event)).collect();
            changes.extend(logged.events.range(..=up_to).map(|(number, event)| (*number, event)));
            for web in self.webs.iter().filter(|web| web.ns == ns && web.connection.is_some() && web.is_greeted) {
                for (number, event) in changes.range(web.since + 1..).filter(|(_, event)| web.receives(event)) {
                    let received = web.received.get(number);
                    let query = web.query();
                    assert!(
                        received == Some(*event),
                        "a client of {query} missed event {number}: {event}, not {received:?}"
                    );
                }
                for (number, event) in web.received.range(start + 1..) {
                    let is_committed = reports_keep_alive(event) || logged.contains(*number);
                    assert!(
                        is_committed,
                        "a client of {} received event {number} without a commit: {event}",
                        web.query()
                    );
                }
            }
        }
    }
}
