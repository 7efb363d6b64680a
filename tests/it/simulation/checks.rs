//! What must hold whenever everything is at rest: the database, what anybody heard, and what the hub shows agree.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use session_gateway_hub::store::Value as Column;

use super::cli::Cli;
use super::ledger::{Floor, Part, Stay};
use super::replies::Purpose;
use super::world::{NEIGHBOUR, Shift, TEAM, World};

/// How long a session and a machine live after their last sign of life, in milliseconds.
const SESSION_MS: u64 = 30_000;
const MACHINE_MS: u64 = 45_000;

/// A session as the database holds it.
struct Row {
    id: String,
    tag: String,
    seq: u64,
    /// In the names and the order in which clients see them; what is absent is null.
    presence: Value,
    metadata: Value,
    metadata_version: u64,
    state: Value,
    state_version: u64,
    updated_at: u64,
    /// The messages by seq: id, local id, content.
    messages: BTreeMap<u64, (String, String, Value)>,
    completed: BTreeMap<String, Value>,
}

impl Row {
    fn is_active(&self) -> bool {
        self.presence["active"] == true
    }
}

impl World {
    /// Everything comes to rest, and is checked.
    pub fn rest(&mut self) {
        self.watchers_come_back();
        self.settle();
        for place in [TEAM, NEIGHBOUR] {
            // What a life before has left on its way may be done as long as the next one has asked for nothing.
            if !self.db.is_haunted(self.objects[place].name) {
                self.check_place(place);
            }
        }
        if self.is_calm() {
            self.check_events();
            if self.dice.chance(50) {
                self.compare_all();
            }
        }
    }

    /// Whether nothing is wrong with the database, and nothing on its way to it.
    fn is_calm(&self) -> bool {
        self.db.under_way() == 0 && !self.db.is_faulty() && !self.late
    }

    fn check_place(&mut self, place: usize) {
        let rows = self.rows(place);
        self.resolve_shifts(place, &rows);
        self.resolve_ends(place, &rows);
        for row in rows.values() {
            self.learn(place, &row.id, &row.tag);
            self.check_row(place, row);
            if self.is_calm() {
                self.check_life(place, row);
            }
            self.ledger(place).session(&row.id).may_end = false;
        }
        if self.is_calm() {
            self.check_subscriptions(place);
            self.check_machines(place);
            self.clis.iter().filter(|cli| cli.place == place).for_each(|cli| self.check_history(cli, &rows));
        }
    }

    /// The sessions of a namespace as the database holds them.
    fn rows(&self, place: usize) -> BTreeMap<String, Row> {
        let of = format!("FROM sessions WHERE namespace = '{}'", self.objects[place].name);
        let mut rows = BTreeMap::new();
        for row in self.db.sqlite.select(&format!(
            "SELECT id, tag, seq, json_object('active', json(iif(active, 'true', 'false')), 'thinking',
             json(iif(thinking, 'true', 'false')), 'mode', mode, 'permissionMode', permission_mode, 'modelMode', model_mode),
             {}, metadata_version, {}, agent_state_version, updated_at {of}",
            whole("metadata"),
            whole("agent_state"),
        )) {
            let mut c = row.into_iter();
            let row = Row {
                id: text(c.next()),
                tag: text(c.next()),
                seq: number(c.next()),
                presence: json(c.next()),
                metadata: json(c.next()),
                metadata_version: number(c.next()),
                state: json(c.next()),
                state_version: number(c.next()),
                updated_at: number(c.next()),
                messages: BTreeMap::new(),
                completed: BTreeMap::new(),
            };
            rows.insert(row.id.clone(), row);
        }
        let ids = format!("(SELECT id {of})");
        for row in self.db.sqlite.select(&format!(
            "SELECT session_id, seq, id, local_id, {WHOLE_MESSAGE} FROM messages WHERE session_id IN {ids}"
        )) {
            let mut c = row.into_iter();
            let (session, seq) = (text(c.next()), number(c.next()));
            let message = (text(c.next()), text(c.next()), json(c.next()));
            rows.get_mut(&session).unwrap().messages.insert(seq, message);
        }
        for row in self
            .db
            .sqlite
            .select(&format!("SELECT session_id, request_id, value FROM completed_requests WHERE session_id IN {ids}"))
        {
            let mut c = row.into_iter();
            let (session, request) = (text(c.next()), text(c.next()));
            rows.get_mut(&session).unwrap().completed.insert(request, json(c.next()));
        }
        rows
    }

    /// What was asked for the end of a session is over: it is there, or it is not.
    fn resolve_ends(&mut self, place: usize, rows: &BTreeMap<String, Row>) {
        let under_way = |id: &str| {
            self.asked.values().any(|asked| asked.place == place && asked.purpose.ends(id))
                || self.shifts.iter().any(|shift| shift.place == place && shift.old == id)
        };
        let decided: Vec<String> = self.ledgers[place].sessions.keys().filter(|id| !under_way(id)).cloned().collect();
        for (id, known) in &mut self.ledgers[place].sessions {
            let there = rows.contains_key(id);
            match known.stay {
                Stay::Doubtful if decided.contains(id) => known.stay = if there { Stay::Sure } else { Stay::Gone },
                Stay::Sure => assert!(there, "session {id} is gone, and nobody asked for that"),
                Stay::Gone => assert!(!there, "session {id} was removed, and is there again"),
                Stay::Doubtful => {}
            }
        }
    }

    /// Sessions that were to be put together: either all of it was done, or nothing.
    fn resolve_shifts(&mut self, place: usize, rows: &BTreeMap<String, Row>) {
        let resumes = |old: &str| {
            let of_old = |purpose: &Purpose| matches!(purpose, Purpose::Resume { session } if session == old);
            self.asked.values().any(|asked| asked.place == place && of_old(&asked.purpose))
        };
        let (over, rest): (Vec<Shift>, Vec<Shift>) =
            std::mem::take(&mut self.shifts).into_iter().partition(|s| s.place == place && !resumes(&s.old));
        self.shifts = rest;
        for Shift { old, new, .. } in over {
            if !rows.contains_key(&old) && rows.contains_key(&new) {
                self.check_merged(place, &old, &rows[&new]);
            }
            for id in [&old, &new] {
                let still = self.shifts.iter().any(|s| s.place == place && (s.old == *id || s.new == *id));
                let known = self.ledgers[place].sessions.get_mut(id).unwrap();
                known.shifting = still;
                known.seqs =
                    rows.get(id).into_iter().flat_map(|row| &row.messages).map(|(n, m)| (*n, m.0.clone())).collect();
                for at in 0..self.clis.len() {
                    if self.clis[at].session().as_ref() == Some(id) {
                        self.clis[at].forget_history();
                        if self.clis[at].is_ready() {
                            self.cli_catches_up(at);
                        }
                    }
                }
            }
        }
    }

    /// The messages of the session that is gone stand in front of the other one's, both in their order.
    fn check_merged(&mut self, place: usize, old: &str, new: &Row) {
        let ledger = self.ledger(place);
        let position = |id: &String| new.messages.iter().find(|(_, message)| message.0 == *id).map(|(seq, _)| *seq);
        let gone = ledger.sessions[old].clone();
        let moved: Vec<u64> = gone.seqs.values().filter_map(position).collect();
        if moved.len() < gone.seqs.len() {
            // It was deleted instead.
            return assert!(moved.is_empty() && gone.deleted, "messages of {old} were lost on their way to {}", new.id);
        }
        let own = ledger.sessions[&new.id].seqs.clone();
        let stayed: Vec<u64> =
            own.values().filter(|id| !gone.seqs.values().any(|old| old == *id)).filter_map(position).collect();
        assert!(moved.is_sorted() && stayed.is_sorted(), "{old} and {} were put together in another order", new.id);
        assert!(moved.last() < stayed.first() || stayed.is_empty(), "{old} does not stand in front of {}", new.id);
        for sent in ledger.messages.values_mut().filter(|sent| sent.session == old) {
            sent.session.clone_from(&new.id);
        }
        let stays = ledger.session(&new.id);
        for (request, entry) in gone.completed {
            stays.completed.entry(request).or_insert(entry);
        }
    }

    /// A session in the database: gapless, with everything that anybody heard of it, and nothing that contradicts it.
    fn check_row(&mut self, place: usize, row: &Row) {
        let Row { id, .. } = row;
        let seqs: Vec<u64> = row.messages.keys().copied().collect();
        assert!(seqs.iter().copied().eq(1..=row.seq), "{id} counts {} messages, and has {seqs:?}", row.seq);
        let ledger = self.ledger(place);
        assert!(row.metadata_version >= ledger.newest(id, Part::Metadata), "a version of {id}'s metadata was lost");
        assert!(row.state_version >= ledger.newest(id, Part::State), "a version of {id}'s state was lost");
        ledger.version(id, Part::Metadata, row.metadata_version, &row.metadata);
        ledger.version(id, Part::State, row.state_version, &row.state);
        let known = ledger.session(id).clone();
        for (seq, message) in known.seqs.iter().filter(|_| !known.shifting) {
            let there = row.messages.get(seq).map(|message| &message.0);
            assert!(there == Some(message), "message {message} was heard at {seq} of {id}, but there is {there:?}");
        }
        let mut local_ids: Vec<&String> = row.messages.values().map(|(_, local_id, _)| local_id).collect();
        local_ids.sort();
        local_ids.windows(2).for_each(|two| assert!(two[0] != two[1], "message {} stands twice in {id}", two[0]));
        let acknowledged = ledger.messages.iter().filter(|(_, sent)| sent.acknowledged && sent.session == *id);
        for (local_id, _) in acknowledged {
            assert!(local_ids.contains(&local_id), "message {local_id} was acknowledged, and is not in {id}");
        }
        for (seq, (message, local_id, content)) in &row.messages {
            let whole = serde_json::json!({"id": message, "seq": seq, "localId": local_id, "content": content});
            ledger.message(id, &whole);
        }
        self.check_requests(place, row);
    }

    /// A request waits, or it is completed; never both, and never neither.
    fn check_requests(&mut self, place: usize, row: &Row) {
        let known = self.ledger(place).session(&row.id);
        for (request, entry) in &known.completed {
            let held = row.completed.get(request);
            assert!(held == Some(entry), "request {request} of {} was heard as {entry}, and is {held:?}", row.id);
        }
        for (request, entry) in &row.completed {
            let waits = row.state["requests"].get(request).is_some();
            assert!(!waits, "request {request} of {} waits, though it was answered: {entry}", row.id);
        }
        for (request, asked) in &known.requests {
            let waits = row.state["requests"].get(request).is_some();
            let completed = row.completed.get(request);
            assert!(!asked.asked || waits || completed.is_some(), "request {request} of {} was lost", row.id);
            let Some(approved) = asked.answered else { continue };
            let status = completed.map(|entry| entry["status"].as_str().unwrap());
            let usual = if approved { "approved" } else { "denied" };
            assert!(
                status == Some(usual) || status == Some("canceled"),
                "request {request} of {} was {usual}, and is {completed:?}",
                row.id
            );
        }
    }

    /// What is active has a clock, and what gave a sign of life is active.
    fn check_life(&mut self, place: usize, row: &Row) {
        let (now, alarm) = (self.now(), self.objects[place].rt.fake.alarm());
        if row.is_active() {
            assert!(alarm.is_some_and(|at| at <= now + SESSION_MS), "{} is active, but its clock is not wound", row.id);
        }
        let upheavals = self.upheavals(place, &row.id, self.db.faults());
        let watched = self.is_watched(place) && !self.db.is_in_doubt(self.objects[place].name);
        let known = self.ledger(place).session(&row.id);
        let archived = row.metadata["lifecycleState"] == "archived";
        if let Some(vital) = known.vital.filter(|vital| vital.upheavals == upheavals && !archived && !known.may_end) {
            let alive = now >= vital.at + SESSION_MS || row.is_active();
            assert!(alive, "{} gave a sign of life at {}, and is taken for dead", row.id, vital.at);
        }
        if let Some(presence) = known.presence.as_ref().filter(|_| watched) {
            for (name, held) in row.presence.as_object().unwrap() {
                assert!(
                    presence.get(name).unwrap_or(&Value::Null) == held,
                    "web clients were told {presence} of {}, and it is {}",
                    row.id,
                    row.presence
                );
            }
        }
    }

    fn check_machines(&self, place: usize) {
        let (now, alarm) = (self.now(), self.objects[place].rt.fake.alarm());
        if self.active_machines(place) > 0 {
            assert!(alarm.is_some_and(|at| at <= now + MACHINE_MS), "a machine is active, but its clock is not wound");
        }
    }

    fn active_machines(&self, place: usize) -> i64 {
        let name = self.objects[place].name;
        self.db.sqlite.number(&format!("SELECT count(*) FROM machines WHERE active AND namespace = '{name}'"))
    }

    /// A CLI that has caught up knows the history, all of it and nothing else.
    fn check_history(&self, cli: &Cli, rows: &BTreeMap<String, Row>) {
        let Some(row) = cli.session().and_then(|id| rows.get(&id)) else { return };
        if !cli.is_ready() || cli.catching_up || self.ledgers[cli.place].sessions[&row.id].shifting {
            return;
        }
        // What it was told is not stored may be there all the same: it hears so when it sends it again.
        let awaits = |seq: &u64, local_id| !cli.history.contains_key(seq) && cli.unacknowledged.contains(local_id);
        let known: Vec<(&u64, &String)> = cli.history.iter().collect();
        let held = row.messages.iter().filter(|(seq, message)| !awaits(seq, &message.1));
        let held: Vec<(&u64, &String)> = held.map(|(seq, message)| (seq, &message.0)).collect();
        assert!(known == held, "a CLI of {} knows {known:?}, and there is {held:?}", row.id);
    }

    /// Every session is shown, and compared with the database.
    fn compare_all(&mut self) {
        // What came late, from a slow database, may be out of date by now.
        self.shown.clear();
        for place in [TEAM, NEIGHBOUR] {
            for session in self.ledgers[place].present() {
                let path = format!("/api/sessions/{session}");
                self.request(place, "GET", &path, String::new(), Purpose::Compare { session });
            }
        }
        self.settle();
        let mut rows = [self.rows(TEAM), self.rows(NEIGHBOUR)];
        for (place, shown) in std::mem::take(&mut self.shown) {
            self.compare(place, &shown, &mut rows[place]);
        }
    }

    /// What the hub shows at rest is what the database holds.
    fn compare(&mut self, place: usize, shown: &Value, rows: &mut BTreeMap<String, Row>) {
        self.ledger(place).shown(shown, &Floor::default());
        let session = shown["id"].as_str().unwrap();
        let Some(row) = rows.remove(session) else { panic!("{session} is shown, and not in the database") };
        let mut state = row.state.clone();
        if !row.completed.is_empty() {
            state = if state.is_object() { state } else { Value::Object(Map::new()) };
            state["completedRequests"] = row.completed.iter().map(|(id, entry)| (id.clone(), entry.clone())).collect();
        }
        let held = [
            ("tag", Value::from(row.tag)),
            ("seq", row.seq.into()),
            ("metadata", row.metadata),
            ("metadataVersion", row.metadata_version.into()),
            ("agentState", state),
            ("agentStateVersion", row.state_version.into()),
            ("updatedAt", row.updated_at.into()),
        ];
        let presence = row.presence.as_object().unwrap().iter().map(|(name, held)| (&**name, held.clone()));
        for (name, held) in held.into_iter().chain(presence) {
            let shown = shown.get(name).unwrap_or(&Value::Null);
            assert!(*shown == held, "{name} of {session} is shown as {shown}, and the database holds {held}");
        }
    }

    /// The end of a run: everybody comes back and gets what he missed; then all are silent until everything has ended.
    pub fn finish(&mut self) {
        self.step("everything is repaired, and everybody comes back");
        self.late = false;
        self.db.repair();
        for _ in 0..20 {
            for at in 0..self.clis.len() {
                match self.clis[at].phase {
                    super::cli::Phase::Away => self.cli_comes(at),
                    super::cli::Phase::Ready => self.cli_sends_again(at),
                    _ => {}
                }
            }
            self.rest();
            self.pass(100);
            if self.clis.iter().all(|cli| cli.is_ready() && cli.unacknowledged.is_empty()) {
                break;
            }
        }
        let waiting = |cli: &&Cli| !cli.unacknowledged.is_empty() && cli.session().is_some();
        let undelivered = self.clis.iter().find(waiting).map(|cli| (cli.session(), &cli.unacknowledged));
        assert!(undelivered.is_none(), "a CLI cannot deliver its messages: {undelivered:?}");
        self.sweep();
        self.step("all are silent");
        for at in 0..self.clis.len() {
            self.cli_leaves(at);
        }
        for _ in 0..6 {
            self.rest();
            self.pass(31_000);
        }
        self.rest();
        self.finish_pushes();
        self.check_end();
    }

    /// Nothing is active, nothing waits, and the object can sleep.
    fn check_end(&mut self) {
        for place in [TEAM, NEIGHBOUR] {
            let name = self.objects[place].name;
            assert!(!self.db.is_in_doubt(name), "{name} never found out what became of a batch");
            for row in self.rows(place).values() {
                assert!(!row.is_active(), "{} is still active, though nobody speaks for it", row.id);
            }
            assert!(self.active_machines(place) == 0, "a machine is still active, though nobody speaks for it");
        }
        let open: Vec<&Purpose> = self.asked.values().map(|asked| &asked.purpose).collect();
        assert!(open.is_empty(), "nobody answers {open:?}");
        assert!(self.scheduler.len() == 0, "{} tasks never end", self.scheduler.len());
        for object in &mut self.objects {
            assert!(object.sleep(), "the object cannot sleep");
        }
    }
}

/// A session's value with all its parts.
fn whole(value: &str) -> String {
    format!(
        "iif({value}_parts IS NULL, {value}, (SELECT group_concat(content, '') FROM (SELECT content FROM value_parts
         WHERE owner = sessions.id AND whole = {value}_parts ORDER BY part)))"
    )
}

/// A message's content with all its parts.
const WHOLE_MESSAGE: &str =
    "iif(parts = 0, content, content || (SELECT group_concat(content, '') FROM (SELECT content FROM message_parts AS p
     WHERE p.session_id = messages.session_id AND p.message_id = messages.id ORDER BY part)))";

pub fn text(column: Option<Column>) -> String {
    match column {
        Some(Column::Text(text)) => text,
        other => panic!("not a text: {other:?}"),
    }
}

pub fn number(column: Option<Column>) -> u64 {
    match column {
        Some(Column::Integer(number)) => u64::try_from(number).unwrap(),
        other => panic!("not a number: {other:?}"),
    }
}

fn json(column: Option<Column>) -> Value {
    match column {
        Some(Column::Text(text)) => serde_json::from_str(&text).unwrap(),
        _ => Value::Null,
    }
}
