//! Checks of event delivery against the event log in the database: which events web clients must have received, and when a gap
//! is allowed.

use std::collections::BTreeMap;

use serde_json::Value;
use session_gateway_hub::hub::core::events::stream::{HEAD_KEY, LOG_RETENTION_MS};
use session_gateway_hub::hub::core::ports::Runtime;

use super::oracle::reports_keep_alive;
use super::rows::{number, text};
use super::world::{NEIGHBOUR, TEAM, World};

/// The event log of a namespace in the database.
struct EventLog {
    /// Events by number.
    events: BTreeMap<u64, Value>,
    /// Ranges of event numbers without events. A range excludes its start and includes its end.
    gaps: Vec<(u64, u64)>,
}

impl EventLog {
    /// Whether the event number was committed. The event itself may be missing in a gap.
    fn contains(&self, number: u64) -> bool {
        self.events.contains_key(&number) || self.gaps.iter().any(|(floor, last)| *floor < number && number <= *last)
    }
}

impl World {
    /// The number of the last event before the start of the log.
    fn log_start(&self, namespace_index: usize) -> u64 {
        let head = self.objects[namespace_index].rt.kv_list(HEAD_KEY).pop();
        // The value is `on NUMBER` or `off NUMBER`.
        let start = head.map_or(0, |(_, head)| head.split(' ').nth(1).unwrap().parse().unwrap());
        start.max(self.last_trimmed_number(namespace_index))
    }

    /// The number of the last event that was deleted because the log was full. Only runs with large values fill the log.
    fn last_trimmed_number(&self, namespace_index: usize) -> u64 {
        let name = self.objects[namespace_index].name;
        let floor = format!("SELECT coalesce(min(floor), 0) FROM events WHERE namespace = '{name}'");
        self.remaining_large_values.map_or(0, |_| u64::try_from(self.db.sqlite.number(&floor)).unwrap())
    }

    /// Reads the event log of a namespace.
    fn read_log(&self, namespace_index: usize) -> EventLog {
        let name = self.objects[namespace_index].name;
        let mut log = EventLog { events: BTreeMap::new(), gaps: Vec::new() };
        // Rows that refer to a deleted message.
        let mut unreadable = Vec::new();
        let rows = format!("SELECT floor, last, body FROM events WHERE namespace = '{name}' ORDER BY last");
        for row in self.db.sqlite.select(&rows) {
            let mut columns = row.into_iter();
            let (floor, last, body) = (number(columns.next()), number(columns.next()), text(columns.next()));
            if body.is_empty() {
                log.gaps.push((floor, last));
            }
            for line in body.lines() {
                let mut columns = line.splitn(3, '\t');
                let number: u64 = columns.next().unwrap().parse().unwrap();
                let (audience, body) = (columns.next().unwrap(), columns.next().unwrap());
                let event = match audience.strip_prefix('r') {
                    Some(session) => self.read_message_event(&serde_json::from_str::<String>(session).unwrap(), body),
                    None => serde_json::from_str(body).unwrap(),
                };
                if event.is_null() {
                    unreadable.push((floor, last));
                }
                log.events.insert(number, event);
            }
        }
        let end_of_gaps = log.gaps.iter().map(|(_, end)| *end).max().unwrap_or(0);
        log.gaps.append(&mut unreadable);
        // A gap is also written by a merge, which renumbers the messages that earlier events refer to.
        for (number, event) in log.events.range_mut(..=end_of_gaps) {
            if event["type"] == "message-received" {
                *event = self.oracles[namespace_index].events.get(number).cloned().unwrap_or(Value::Null);
            }
        }
        log
    }

    /// Reads the event of a message to which the log refers; null if the message or its session was deleted.
    fn read_message_event(&self, session: &str, seq: &str) -> Value {
        let rows = self.db.sqlite.select(&format!(
            "SELECT json_object('type', 'message-received', 'sessionId', '{session}', 'message', json_object('id', id, 'seq', seq,
             'localId', local_id, 'content', json(content), 'createdAt', created_at))
             FROM messages WHERE seq = {seq} AND session_id =
               (SELECT coalesce(history, id) FROM sessions WHERE id = '{session}' AND namespace NOT GLOB '/*')"
        ));
        rows.into_iter().next().map_or(Value::Null, |row| serde_json::from_str(&text(row.into_iter().next())).unwrap())
    }

    /// Reads the id of the message with a seq.
    fn read_message_id(&self, session: &str, seq: &Value) -> Option<String> {
        let rows = self.db.sqlite.select(&format!(
            "SELECT id FROM messages WHERE seq = {seq} AND session_id =
               (SELECT coalesce(history, id) FROM sessions WHERE id = '{session}' AND namespace NOT GLOB '/*')"
        ));
        rows.into_iter().next().map(|row| text(row.into_iter().next()))
    }

    /// Whether a client that resumes may receive a gap: the log starts after the client's last event, or a merge or a deletion
    /// has changed messages of later events. Faults, hibernation and restarts cause no gaps.
    pub fn may_miss_events(&self, i: usize) -> bool {
        let (namespace_index, last) = (self.webs[i].namespace_index, self.webs[i].last_number);
        // The log may have ended, and a new log may have started at the same number.
        let may_be_expired = last / 1_000 + LOG_RETENTION_MS <= self.now();
        may_be_expired
            || last < self.log_start(namespace_index)
            || self.read_log(namespace_index).gaps.iter().any(|(_, end)| *end > last)
    }

    /// Whether a connected client may receive a gap. This is so if the outcome of a batch was unknown when the log was started, if
    /// a merge has renumbered the messages of the client's session, or if a fault occurred in a merge.
    pub fn may_receive_gap(&self, i: usize) -> bool {
        let (namespace_index, last) = (self.webs[i].namespace_index, self.webs[i].last_number);
        let may_be_unlogged =
            self.db.had_unknown_outcome(self.objects[namespace_index].name) && last <= self.log_start(namespace_index);
        may_be_unlogged
            || (self.db.fault_count() > 0 || self.webs[i].session.is_some())
                && self.read_log(namespace_index).gaps.iter().any(|(_, end)| *end > last)
    }

    /// Checks that each connected client has received all events of its subscription, and only committed events. While the
    /// outcome of a batch is unknown, an event that no client has received may be missing.
    pub fn check_events(&self) {
        for namespace_index in [TEAM, NEIGHBOUR] {
            let (log, start) = (self.read_log(namespace_index), self.log_start(namespace_index));
            let observed = self.oracles[namespace_index].events.keys().next_back().copied().unwrap_or(0);
            let last_expected =
                if self.db.has_unknown_outcome(self.objects[namespace_index].name) { observed } else { u64::MAX };
            // Keep-alive events without a change are not logged.
            let expected = self.oracles[namespace_index].events.iter().filter(|(_, event)| !reports_keep_alive(event));
            let mut expected: BTreeMap<u64, &Value> = expected.map(|(number, event)| (*number, event)).collect();
            let logged = log.events.range(..=last_expected).filter(|(_, event)| !event.is_null());
            expected.extend(logged.map(|(number, event)| (*number, event)));
            for web in self
                .webs
                .iter()
                .filter(|web| web.namespace_index == namespace_index && web.connection.is_some() && web.has_first_event)
            {
                for (number, event) in
                    expected.range(web.start_number + 1..).filter(|(_, event)| web.subscribes_to(event))
                {
                    let received = web.received.get(number);
                    let query = web.query();
                    assert!(
                        received == Some(*event),
                        "a client of {query} missed event {number}: {event}, not {received:?}"
                    );
                }
                for event in web.received.values().filter(|event| event["type"] == "message-received") {
                    let message = &event["message"];
                    let stored = self.read_message_id(event["sessionId"].as_str().unwrap(), &message["seq"]);
                    assert!(
                        stored.is_none_or(|id| message["id"] == id),
                        "a client of {} has message {message}, which was renumbered",
                        web.query()
                    );
                }
                for (number, event) in web.received.range(start + 1..) {
                    let is_committed = reports_keep_alive(event) || log.contains(*number);
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
