//! Invariants of an idle world: the database, the observations of the clients, and the responses of the hub agree.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::cli::Cli;
use super::oracle::{Existence, LowerBound, ValueKind};
use super::responses::Purpose;
use super::rows::Row;
use super::world::{Merge, NEIGHBOUR, TEAM, World};

/// The keep-alive timeouts of sessions and machines.
const SESSION_MS: u64 = 30_000;
const MACHINE_MS: u64 = 45_000;

impl World {
    /// Runs until the world is idle and checks all invariants.
    pub fn settle_and_check(&mut self) {
        self.reconnect_watchers();
        self.run_until_idle();
        for ns in [TEAM, NEIGHBOUR] {
            // A write of an earlier incarnation can commit until the next incarnation sends its first batch.
            if !self.db.has_abandoned_writes(self.objects[ns].name) {
                self.check_namespace(ns);
            }
        }
        if self.is_undisturbed() {
            self.check_events();
            if self.rng.chance(50) {
                self.compare_all_sessions();
            }
        }
    }

    /// Whether no fault is active and no query is in flight.
    fn is_undisturbed(&self) -> bool {
        self.db.in_flight() == 0 && !self.db.is_faulty() && !self.alarms_delayed
    }

    fn check_namespace(&mut self, ns: usize) {
        let rows = self.read_rows(ns);
        self.resolve_merges(ns, &rows);
        self.resolve_deletions(ns, &rows);
        for row in rows.values() {
            self.observe_session(ns, &row.id, &row.tag);
            self.check_row(ns, row);
            if self.is_undisturbed() {
                self.check_keep_alive(ns, row);
            }
            self.oracle(ns).session(&row.id).may_end = false;
        }
        if self.is_undisturbed() {
            self.check_subscriptions(ns);
            self.check_machines(ns);
            self.clis.iter().filter(|cli| cli.ns == ns).for_each(|cli| self.check_history(cli, &rows));
        }
    }

    /// Determines from the database whether a session exists whose deletion has no result.
    fn resolve_deletions(&mut self, ns: usize, rows: &BTreeMap<String, Row>) {
        let in_flight = |id: &str| {
            self.pending.values().any(|request| request.ns == ns && request.purpose.ends(id))
                || self.merges_in_progress.iter().any(|shift| shift.ns == ns && shift.old == id)
        };
        let decided: Vec<String> = self.oracles[ns].sessions.keys().filter(|id| !in_flight(id)).cloned().collect();
        for (id, known) in &mut self.oracles[ns].sessions {
            let there = rows.contains_key(id);
            match known.existence {
                Existence::Unknown if decided.contains(id) => {
                    known.existence = if there { Existence::Certain } else { Existence::Deleted }
                }
                Existence::Certain => assert!(there, "session {id} is missing without a request to delete it"),
                Existence::Deleted => assert!(!there, "session {id} exists after its deletion"),
                Existence::Unknown => {}
            }
        }
    }

    /// Checks that a merge was executed completely or not at all.
    fn resolve_merges(&mut self, ns: usize, rows: &BTreeMap<String, Row>) {
        let resumes = |old: &str| {
            let of_old = |purpose: &Purpose| matches!(purpose, Purpose::Resume { session } if session == old);
            self.pending.values().any(|request| request.ns == ns && of_old(&request.purpose))
        };
        let (over, rest): (Vec<Merge>, Vec<Merge>) =
            std::mem::take(&mut self.merges_in_progress).into_iter().partition(|s| s.ns == ns && !resumes(&s.old));
        self.merges_in_progress = rest;
        for Merge { old, new, .. } in over {
            if !rows.contains_key(&old) && rows.contains_key(&new) {
                self.check_merged(ns, &old, &rows[&new]);
            }
            for id in [&old, &new] {
                let still = self.merges_in_progress.iter().any(|s| s.ns == ns && (s.old == *id || s.new == *id));
                let known = self.oracles[ns].sessions.get_mut(id).unwrap();
                known.is_merging = still;
                known.seqs =
                    rows.get(id).into_iter().flat_map(|row| &row.messages).map(|(n, m)| (*n, m.0.clone())).collect();
                for i in 0..self.clis.len() {
                    if self.clis[i].session().as_ref() == Some(id) {
                        self.clis[i].forget_history();
                        if self.clis[i].is_ready() {
                            self.cli_catch_up(i);
                        }
                    }
                }
            }
        }
    }

    /// Checks that the messages of the merged session precede those of the other, both in their order.
    fn check_merged(&mut self, ns: usize, old: &str, new: &Row) {
        let oracle = self.oracle(ns);
        let position = |id: &String| new.messages.iter().find(|(_, message)| message.0 == *id).map(|(seq, _)| *seq);
        let gone = oracle.sessions[old].clone();
        let moved: Vec<u64> = gone.seqs.values().filter_map(position).collect();
        if moved.len() < gone.seqs.len() {
            // The session was deleted instead.
            return assert!(
                moved.is_empty() && gone.deletion_requested,
                "messages of {old} were lost in the merge into {}",
                new.id
            );
        }
        let own = oracle.sessions[&new.id].seqs.clone();
        let stayed: Vec<u64> =
            own.values().filter(|id| !gone.seqs.values().any(|old| old == *id)).filter_map(position).collect();
        assert!(
            moved.is_sorted() && stayed.is_sorted(),
            "the merge of {old} and {} changed the order of the messages",
            new.id
        );
        assert!(
            moved.last() < stayed.first() || stayed.is_empty(),
            "the messages of {old} do not precede those of {}",
            new.id
        );
        for sent in oracle.messages.values_mut().filter(|sent| sent.session == old) {
            sent.session.clone_from(&new.id);
        }
        let stays = oracle.session(&new.id);
        for (request, entry) in gone.completed {
            stays.completed.entry(request).or_insert(entry);
        }
    }

    /// Checks a session in the database: its messages have no gaps, and it agrees with all observations.
    fn check_row(&mut self, ns: usize, row: &Row) {
        let Row { id, .. } = row;
        let seqs: Vec<u64> = row.messages.keys().copied().collect();
        assert!(seqs.iter().copied().eq(1..=row.seq), "the seq of {id} is {}, but its messages have {seqs:?}", row.seq);
        let oracle = self.oracle(ns);
        assert!(
            row.metadata_version >= oracle.newest_version(id, ValueKind::Metadata),
            "a version of {id}'s metadata was lost"
        );
        assert!(
            row.state_version >= oracle.newest_version(id, ValueKind::AgentState),
            "a version of {id}'s state was lost"
        );
        oracle.observe_version(id, ValueKind::Metadata, row.metadata_version, &row.metadata);
        oracle.observe_version(id, ValueKind::AgentState, row.state_version, &row.state);
        let known = oracle.session(id).clone();
        for (seq, message) in known.seqs.iter().filter(|_| !known.is_merging) {
            let there = row.messages.get(seq).map(|message| &message.0);
            assert!(
                there == Some(message),
                "message {message} was observed at {seq} of {id}, but the database has {there:?}"
            );
        }
        let mut local_ids: Vec<&String> = row.messages.values().map(|(_, local_id, _)| local_id).collect();
        local_ids.sort();
        local_ids.windows(2).for_each(|pair| assert!(pair[0] != pair[1], "message {} is duplicated in {id}", pair[0]));
        let acknowledged = oracle.messages.iter().filter(|(_, sent)| sent.acknowledged && sent.session == *id);
        for (local_id, _) in acknowledged {
            assert!(local_ids.contains(&local_id), "acknowledged message {local_id} is missing in {id}");
        }
        for (seq, (message, local_id, content)) in &row.messages {
            let whole = serde_json::json!({"id": message, "seq": seq, "localId": local_id, "content": content});
            oracle.observe_message(id, &whole);
        }
        self.check_requests(ns, row);
    }

    /// Checks that each request is either pending or completed.
    fn check_requests(&mut self, ns: usize, row: &Row) {
        let known = self.oracle(ns).session(&row.id);
        for (request, entry) in &known.completed {
            let held = row.completed.get(request);
            assert!(
                held == Some(entry),
                "request {request} of {} was observed as {entry}, but the database has {held:?}",
                row.id
            );
        }
        for (request, entry) in &row.completed {
            let is_pending = row.state["requests"].get(request).is_some();
            assert!(!is_pending, "request {request} of {} is both pending and completed: {entry}", row.id);
        }
        for (request, record) in &known.requests {
            let is_pending = row.state["requests"].get(request).is_some();
            let completed = row.completed.get(request);
            assert!(
                !record.acknowledged || is_pending || completed.is_some(),
                "request {request} of {} was lost",
                row.id
            );
            let Some(approved) = record.answered else { continue };
            let status = completed.map(|entry| entry["status"].as_str().unwrap());
            let expected = if approved { "approved" } else { "denied" };
            assert!(
                status == Some(expected) || status == Some("canceled"),
                "request {request} of {} was {expected}, but the database has {completed:?}",
                row.id
            );
        }
    }

    /// Checks that an active session has an alarm, and that a session with a valid keep-alive is active.
    fn check_keep_alive(&mut self, ns: usize, row: &Row) {
        let (now, alarm) = (self.now(), self.objects[ns].rt.fake.alarm());
        if row.is_active() {
            assert!(
                alarm.is_some_and(|i| i <= now + SESSION_MS),
                "{} is active, but no alarm is set for its timeout",
                row.id
            );
        }
        let disruptions = self.disruptions(ns, &row.id, self.db.faults());
        let is_watched = self.watchers_are_current(ns) && !self.db.has_unknown_outcome(self.objects[ns].name);
        let known = self.oracle(ns).session(&row.id);
        let archived = row.metadata["lifecycleState"] == "archived";
        if let Some(keep_alive) =
            known.keep_alive.filter(|keep_alive| keep_alive.disruptions == disruptions && !archived && !known.may_end)
        {
            let alive = now >= keep_alive.time + SESSION_MS || row.is_active();
            assert!(alive, "{} had a keep-alive at {}, but is inactive", row.id, keep_alive.time);
        }
        if let Some(presence) = known.presence.as_ref().filter(|_| is_watched) {
            for (name, held) in row.presence.as_object().unwrap() {
                assert!(
                    presence.get(name).unwrap_or(&Value::Null) == held,
                    "web clients received {presence} for {}, but the database has {}",
                    row.id,
                    row.presence
                );
            }
        }
    }

    fn check_machines(&self, ns: usize) {
        let (now, alarm) = (self.now(), self.objects[ns].rt.fake.alarm());
        if self.active_machines(ns) > 0 {
            assert!(
                alarm.is_some_and(|i| i <= now + MACHINE_MS),
                "a machine is active, but no alarm is set for its timeout"
            );
        }
    }

    fn active_machines(&self, ns: usize) -> i64 {
        let name = self.objects[ns].name;
        self.db.sqlite.number(&format!("SELECT count(*) FROM machines WHERE active AND namespace = '{name}'"))
    }

    /// Checks that a CLI that has caught up has the complete history.
    fn check_history(&self, cli: &Cli, rows: &BTreeMap<String, Row>) {
        let Some(row) = cli.session().and_then(|id| rows.get(&id)) else { return };
        if !cli.is_ready() || cli.is_catching_up || self.oracles[cli.ns].sessions[&row.id].is_merging {
            return;
        }
        // A rejected message may have been committed; the CLI learns it when it sends the message again.
        let is_unacknowledged =
            |seq: &u64, local_id| !cli.history.contains_key(seq) && cli.unacknowledged.contains(local_id);
        let known: Vec<(&u64, &String)> = cli.history.iter().collect();
        let held = row.messages.iter().filter(|(seq, message)| !is_unacknowledged(seq, &message.1));
        let held: Vec<(&u64, &String)> = held.map(|(seq, message)| (seq, &message.0)).collect();
        assert!(known == held, "a CLI of {} has the history {known:?}, but the database has {held:?}", row.id);
    }

    /// Requests every session and compares it with the database.
    fn compare_all_sessions(&mut self) {
        // Delayed responses may be stale.
        self.read_sessions.clear();
        for ns in [TEAM, NEIGHBOUR] {
            for session in self.oracles[ns].existing_sessions() {
                let path = format!("/api/sessions/{session}");
                self.request(ns, "GET", &path, String::new(), Purpose::Compare { session });
            }
        }
        self.run_until_idle();
        let mut rows = [self.read_rows(TEAM), self.read_rows(NEIGHBOUR)];
        for (ns, response) in std::mem::take(&mut self.read_sessions) {
            self.compare(ns, &response, &mut rows[ns]);
        }
    }

    /// Compares a response with the database.
    fn compare(&mut self, ns: usize, response: &Value, rows: &mut BTreeMap<String, Row>) {
        self.oracle(ns).observe_snapshot(response, &LowerBound::default());
        let session = response["id"].as_str().unwrap();
        let Some(row) = rows.remove(session) else { panic!("{session} is not in the database") };
        let mut state = row.state.clone();
        if !row.completed.is_empty() {
            state = if state.is_object() { state } else { Value::Object(Map::new()) };
            state["completedRequests"] = row.completed.iter().map(|(id, entry)| (id.clone(), entry.clone())).collect();
        }
        let stored = [
            ("tag", Value::from(row.tag)),
            ("seq", row.seq.into()),
            ("metadata", row.metadata),
            ("metadataVersion", row.metadata_version.into()),
            ("agentState", state),
            ("agentStateVersion", row.state_version.into()),
            ("updatedAt", row.updated_at.into()),
        ];
        let presence = row.presence.as_object().unwrap().iter().map(|(name, stored)| (&**name, stored.clone()));
        for (name, stored) in stored.into_iter().chain(presence) {
            let value = response.get(name).unwrap_or(&Value::Null);
            assert!(*value == stored, "{name} of {session} is {value} in the response and {stored} in the database");
        }
    }

    /// Ends a run: all CLIs reconnect and catch up, then disconnect until everything has timed out.
    pub fn finish(&mut self) {
        self.step("no more faults; all CLIs reconnect");
        self.alarms_delayed = false;
        self.db.repair();
        for _ in 0..20 {
            for i in 0..self.clis.len() {
                match self.clis[i].phase {
                    super::cli::Phase::Disconnected => self.cli_connect(i),
                    super::cli::Phase::Ready => self.cli_resend(i),
                    _ => {}
                }
            }
            self.settle_and_check();
            self.advance(100);
            if self.clis.iter().all(|cli| cli.is_ready() && cli.unacknowledged.is_empty()) {
                break;
            }
        }
        let has_undelivered = |cli: &&Cli| !cli.unacknowledged.is_empty() && cli.session().is_some();
        let undelivered = self.clis.iter().find(has_undelivered).map(|cli| (cli.session(), &cli.unacknowledged));
        assert!(undelivered.is_none(), "undelivered messages of a CLI: {undelivered:?}");
        self.store_large_once_more();
        self.step("all CLIs disconnect");
        for i in 0..self.clis.len() {
            self.cli_disconnect(i);
        }
        for _ in 0..6 {
            self.settle_and_check();
            self.advance(31_000);
        }
        self.settle_and_check();
        self.finish_pushes();
        self.check_end();
    }

    /// Checks that nothing is active or pending, and that the objects can hibernate.
    fn check_end(&mut self) {
        for ns in [TEAM, NEIGHBOUR] {
            let name = self.objects[ns].name;
            assert!(!self.db.has_unknown_outcome(name), "{name} has not determined the outcome of a batch");
            for row in self.read_rows(ns).values() {
                assert!(!row.is_active(), "{} is active without a CLI", row.id);
            }
            assert!(self.active_machines(ns) == 0, "a machine is active without a runner");
        }
        let unanswered: Vec<&Purpose> = self.pending.values().map(|request| &request.purpose).collect();
        assert!(unanswered.is_empty(), "requests without a response: {unanswered:?}");
        assert!(self.scheduler.len() == 0, "{} tasks never end", self.scheduler.len());
        for object in &mut self.objects {
            assert!(object.hibernate(), "the object cannot hibernate");
        }
    }
}
