//! Invariants of an idle world: the database, the observations of the clients, and the responses of the hub agree.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::cli::{Cli, Phase};
use super::liveness::SESSION_TIMEOUT_MS;
use super::long_sessions::stored_messages;
use super::oracle::{Cancellation, Existence, ReportedState, ValueKind};
use super::responses::Purpose;
use super::rows::Row;
use super::world::{Merge, NEIGHBOUR, TEAM, World};

/// The keep-alive timeout of a machine.
const MACHINE_TIMEOUT_MS: u64 = 45_000;
/// How long the pending requests of an inactive session are kept.
const DAY_MS: u64 = 24 * 60 * 60_000;

impl World {
    /// Runs until the world is idle, then checks the invariants that hold with the current faults.
    pub fn run_until_idle_and_check(&mut self) {
        self.reconnect_watchers();
        self.run_until_idle();
        for namespace_index in [TEAM, NEIGHBOUR] {
            // A write of an earlier incarnation can still commit until the next incarnation has raised the epoch.
            if !self.db.has_abandoned_writes(self.objects[namespace_index].name) {
                self.check_namespace(namespace_index);
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
        self.db.in_flight_count() == 0 && !self.db.is_faulty() && !self.are_alarms_delayed
    }

    /// Checks the invariants of a namespace.
    fn check_namespace(&mut self, namespace_index: usize) {
        let rows = self.read_rows(namespace_index);
        self.resolve_merges(namespace_index, &rows);
        self.resolve_deletions(namespace_index, &rows);
        for row in rows.values() {
            self.observe_session(namespace_index, &row.id, &row.tag);
            self.check_row(namespace_index, row);
            if self.is_undisturbed() {
                self.check_keep_alive(namespace_index, row);
                self.check_presence(namespace_index, row);
            }
            self.oracle(namespace_index).settle_ends(&row.id);
        }
        if self.is_undisturbed() {
            self.check_subscriptions(namespace_index);
            self.check_machines(namespace_index);
            self.clis
                .iter()
                .filter(|cli| cli.namespace_index == namespace_index)
                .for_each(|cli| self.check_history(cli, &rows));
        }
    }

    /// Checks that the database has exactly the sessions that must exist. For a deletion without a known result, records
    /// whether the session is still in the database.
    fn resolve_deletions(&mut self, namespace_index: usize, rows: &BTreeMap<String, Row>) {
        let may_be_deleted = |id: &str| {
            self.pending.values().any(|request| request.namespace_index == namespace_index && request.purpose.ends(id))
                || self
                    .merges_in_progress
                    .iter()
                    .any(|merge| merge.namespace_index == namespace_index && merge.old == id)
        };
        let without_pending_deletion: Vec<String> =
            self.oracles[namespace_index].sessions.keys().filter(|id| !may_be_deleted(id)).cloned().collect();
        for (id, record) in &mut self.oracles[namespace_index].sessions {
            let is_stored = rows.contains_key(id);
            match record.existence {
                Existence::Unknown if without_pending_deletion.contains(id) => {
                    record.existence = if is_stored { Existence::Certain } else { Existence::Deleted }
                }
                Existence::Certain => assert!(is_stored, "session {id} is missing without a request to delete it"),
                Existence::Deleted => assert!(!is_stored, "session {id} exists after its deletion"),
                Existence::Unknown => {}
            }
        }
    }

    /// For each merge whose request has ended, checks that the merge was executed completely or not at all. Makes the CLIs of
    /// both sessions read the renumbered history again.
    fn resolve_merges(&mut self, namespace_index: usize, rows: &BTreeMap<String, Row>) {
        let is_being_resumed = |old: &str| {
            let resumes_old = |purpose: &Purpose| matches!(purpose, Purpose::Resume { session } if session == old);
            self.pending
                .values()
                .any(|request| request.namespace_index == namespace_index && resumes_old(&request.purpose))
        };
        let (ended, in_progress): (Vec<Merge>, Vec<Merge>) = std::mem::take(&mut self.merges_in_progress)
            .into_iter()
            .partition(|merge| merge.namespace_index == namespace_index && !is_being_resumed(&merge.old));
        self.merges_in_progress = in_progress;
        for Merge { old, new, .. } in ended {
            if !rows.contains_key(&old) && rows.contains_key(&new) {
                self.check_merged(namespace_index, &old, &rows[&new]);
            }
            for id in [&old, &new] {
                let is_merging = self
                    .merges_in_progress
                    .iter()
                    .any(|merge| merge.namespace_index == namespace_index && (merge.old == *id || merge.new == *id));
                let record = self.oracles[namespace_index].sessions.get_mut(id).unwrap();
                record.is_merging = is_merging;
                record.seqs = rows
                    .get(id)
                    .into_iter()
                    .flat_map(|row| &row.messages)
                    .map(|(seq, message)| (*seq, message.0.clone()))
                    .collect();
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

    /// Checks that the messages of the merged session precede the messages of the remaining session, and that neither order has
    /// changed.
    fn check_merged(&mut self, namespace_index: usize, old: &str, new: &Row) {
        let oracle = self.oracle(namespace_index);
        let position = |id: &String| new.messages.iter().find(|(_, message)| message.0 == *id).map(|(seq, _)| *seq);
        let merged = oracle.sessions[old].clone();
        let merged_seqs: Vec<u64> = merged.seqs.values().filter_map(position).collect();
        if merged_seqs.len() < merged.seqs.len() {
            // The session was deleted, not merged.
            return assert!(
                merged_seqs.is_empty() && merged.is_deletion_requested,
                "messages of {old} were lost in the merge into {}",
                new.id
            );
        }
        let observed_seqs = oracle.sessions[&new.id].seqs.clone();
        let is_merged = |id: &&String| merged.seqs.values().any(|old| old == *id);
        let own_seqs: Vec<u64> = observed_seqs.values().filter(|id| !is_merged(id)).filter_map(position).collect();
        assert!(
            merged_seqs.is_sorted() && own_seqs.is_sorted(),
            "the merge of {old} and {} changed the order of the messages",
            new.id
        );
        assert!(
            merged_seqs.last() < own_seqs.first() || own_seqs.is_empty(),
            "the messages of {old} do not precede those of {}",
            new.id
        );
        for sent in oracle.messages.values_mut().filter(|sent| sent.session == old) {
            sent.session.clone_from(&new.id);
        }
        let remaining = oracle.session(&new.id);
        remaining.is_archive_requested |= merged.is_archive_requested;
        for (request, entry) in merged.completed {
            remaining.completed.entry(request).or_insert(entry);
        }
    }

    /// Checks a session in the database: its messages have no gaps, and it agrees with all observations.
    fn check_row(&mut self, namespace_index: usize, row: &Row) {
        let Row { id, .. } = row;
        let seqs: Vec<u64> = row.messages.keys().copied().collect();
        let first_seq = 1 + stored_messages(id);
        assert!(
            seqs.iter().copied().eq(first_seq..=row.seq),
            "the seq of {id} is {}, but its messages have {seqs:?}",
            row.seq
        );
        let oracle = self.oracle(namespace_index);
        assert!(
            row.metadata_version >= oracle.newest_version(id, ValueKind::Metadata),
            "a version of {id}'s metadata was lost"
        );
        assert!(
            row.agent_state_version >= oracle.newest_version(id, ValueKind::AgentState),
            "a version of {id}'s state was lost"
        );
        oracle.observe_version(id, ValueKind::Metadata, row.metadata_version, &row.metadata);
        oracle.observe_version(id, ValueKind::AgentState, row.agent_state_version, &row.agent_state);
        let record = oracle.session(id).clone();
        for (seq, message) in record.seqs.iter().filter(|_| !record.is_merging) {
            let stored = row.messages.get(seq).map(|message| &message.0);
            assert!(
                stored == Some(message),
                "message {message} was observed at {seq} of {id}, but the database has {stored:?}"
            );
        }
        let mut local_ids: Vec<&String> = row.messages.values().map(|(_, local_id, _)| local_id).collect();
        local_ids.sort();
        local_ids.windows(2).for_each(|pair| assert!(pair[0] != pair[1], "message {} is duplicated in {id}", pair[0]));
        let acknowledged = oracle.messages.iter().filter(|(_, sent)| sent.is_acknowledged && sent.session == *id);
        for (local_id, _) in acknowledged {
            assert!(local_ids.contains(&local_id), "acknowledged message {local_id} is missing in {id}");
        }
        let is_archive_requested = record.is_archive_requested;
        for (local_id, sent) in oracle.messages.iter().filter(|(_, sent)| sent.is_held && sent.session == *id) {
            let (is_sent, is_waiting) = (local_ids.contains(&local_id), row.held.contains(local_id));
            assert!(!(is_sent && is_waiting), "message {local_id} of {id} is both sent and held");
            match sent.cancellation {
                Some(Cancellation::Unknown) => {}
                Some(Cancellation::Canceled) => {
                    assert!(!is_sent && !is_waiting, "the canceled message {local_id} of {id} is sent or held");
                }
                Some(Cancellation::Refused) => {
                    assert!(
                        is_sent || is_archive_requested,
                        "message {local_id} of {id} was not canceled, but is not sent"
                    );
                }
                None => assert!(
                    is_sent || is_waiting || is_archive_requested || record.is_merging,
                    "the held message {local_id} of {id} was lost"
                ),
            }
        }
        for (seq, (message, local_id, content)) in &row.messages {
            let message = serde_json::json!({"id": message, "seq": seq, "localId": local_id, "content": content});
            oracle.observe_message(id, &message);
        }
        self.check_requests(namespace_index, row);
        self.check_canceled_requests(namespace_index, row);
    }

    /// Checks that each request is either pending or completed.
    fn check_requests(&mut self, namespace_index: usize, row: &Row) {
        let record = self.oracle(namespace_index).session(&row.id);
        for (request, entry) in &record.completed {
            let stored = row.completed.get(request);
            assert!(
                stored == Some(entry),
                "request {request} of {} was observed as {entry}, but the database has {stored:?}",
                row.id
            );
        }
        for (request, entry) in &row.completed {
            let is_pending = row.agent_state["requests"].get(request).is_some();
            assert!(!is_pending, "request {request} of {} is both pending and completed: {entry}", row.id);
        }
        for (request, known_request) in &record.requests {
            let is_pending = row.agent_state["requests"].get(request).is_some();
            let completed = row.completed.get(request);
            assert!(
                !known_request.is_acknowledged || is_pending || completed.is_some(),
                "request {request} of {} was lost",
                row.id
            );
            let Some(approved) = known_request.approved else { continue };
            let status = completed.map(|entry| entry["status"].as_str().unwrap());
            let expected = if approved { "approved" } else { "denied" };
            assert!(
                status == Some(expected) || status == Some("canceled"),
                "request {request} of {} was {expected}, but the database has {completed:?}",
                row.id
            );
        }
    }

    /// Checks that an active session has an alarm, and that the web clients have received the presence in the database.
    fn check_presence(&mut self, namespace_index: usize, row: &Row) {
        let (now, alarm) = (self.now(), self.objects[namespace_index].rt.fake.alarm());
        if row.is_active() {
            assert!(
                alarm.is_some_and(|i| i <= now + SESSION_TIMEOUT_MS),
                "{} is active, but no alarm is set for its timeout",
                row.id
            );
        }
        let is_watched = self.watchers_are_current(namespace_index)
            && !self.db.has_unknown_outcome(self.objects[namespace_index].name);
        let record = self.oracle(namespace_index).session(&row.id);
        if let Some(presence) = record.presence.as_ref().filter(|_| is_watched) {
            for (name, stored) in row.presence.as_object().unwrap() {
                assert!(
                    presence.get(name).unwrap_or(&Value::Null) == stored,
                    "web clients received {presence} for {}, but the database has {}",
                    row.id,
                    row.presence
                );
            }
        }
    }

    /// Checks that an active machine has an alarm.
    fn check_machines(&self, namespace_index: usize) {
        let (now, alarm) = (self.now(), self.objects[namespace_index].rt.fake.alarm());
        if self.active_machines(namespace_index) > 0 {
            assert!(
                alarm.is_some_and(|i| i <= now + MACHINE_TIMEOUT_MS),
                "a machine is active, but no alarm is set for its timeout"
            );
        }
    }

    fn active_machines(&self, namespace_index: usize) -> i64 {
        let name = self.objects[namespace_index].name;
        self.db.sqlite.number(&format!("SELECT count(*) FROM machines WHERE active AND namespace = '{name}'"))
    }

    /// Checks that a CLI that has caught up has the complete history.
    fn check_history(&self, cli: &Cli, rows: &BTreeMap<String, Row>) {
        let Some(row) = cli.session().and_then(|id| rows.get(&id)) else { return };
        if !cli.is_ready() || cli.is_catching_up || self.oracles[cli.namespace_index].sessions[&row.id].is_merging {
            return;
        }
        // A message may be committed although its acknowledgement is an error. The CLI learns the seq of such a message when it
        // sends the message again.
        let is_unacknowledged =
            |seq: &u64, local_id| !cli.history.contains_key(seq) && cli.unacknowledged.contains(local_id);
        let received: Vec<(&u64, &String)> = cli.history.iter().collect();
        let expected = row.messages.iter().filter(|(seq, message)| !is_unacknowledged(seq, &message.1));
        let expected: Vec<(&u64, &String)> = expected.map(|(seq, message)| (seq, &message.0)).collect();
        assert!(
            received == expected,
            "a CLI of {} has the history {received:?}, but the database has {expected:?}",
            row.id
        );
    }

    /// Requests each session and compares the response with the database, unless the session changes meanwhile.
    fn compare_all_sessions(&mut self) {
        // Responses of an earlier call may be stale.
        self.sessions_to_compare.clear();
        for namespace_index in [TEAM, NEIGHBOUR] {
            for session in self.oracles[namespace_index].existing_sessions() {
                let path = format!("/api/sessions/{session}");
                self.request(namespace_index, "GET", &path, String::new(), Purpose::Compare { session });
            }
        }
        let before = [self.read_rows(TEAM), self.read_rows(NEIGHBOUR)];
        self.run_until_idle();
        let mut after = [self.read_rows(TEAM), self.read_rows(NEIGHBOUR)];
        for (namespace_index, response) in std::mem::take(&mut self.sessions_to_compare) {
            // A timeout may have changed a session after it was read.
            let row = |rows: &[BTreeMap<String, Row>; 2]| rows[namespace_index].get(response["id"].as_str()?).cloned();
            if row(&before) == row(&after) {
                self.compare(namespace_index, &response, &mut after[namespace_index]);
            }
        }
    }

    /// Compares a response with the database.
    fn compare(&mut self, namespace_index: usize, response: &Value, rows: &mut BTreeMap<String, Row>) {
        self.oracle(namespace_index).observe_snapshot(response, &ReportedState::default());
        let session = response["id"].as_str().unwrap();
        let Some(row) = rows.remove(session) else { panic!("{session} is not in the database") };
        let mut state = row.agent_state.clone();
        if !row.completed.is_empty() {
            state = if state.is_object() { state } else { Value::Object(Map::new()) };
            state["completedRequests"] = row.completed.iter().map(|(id, entry)| (id.clone(), entry.clone())).collect();
        }
        let fields = [
            ("tag", Value::from(row.tag)),
            ("seq", row.seq.into()),
            ("metadata", row.metadata),
            ("metadataVersion", row.metadata_version.into()),
            ("agentState", state),
            ("agentStateVersion", row.agent_state_version.into()),
            ("updatedAt", row.updated_at.into()),
        ];
        let presence = row.presence.as_object().unwrap().iter().map(|(name, stored)| (&**name, stored.clone()));
        for (name, stored) in fields.into_iter().chain(presence) {
            let value = response.get(name).unwrap_or(&Value::Null);
            assert!(*value == stored, "{name} of {session} is {value} in the response and {stored} in the database");
        }
    }

    /// Ends a run: all CLIs reconnect and catch up. Then they disconnect, and the clock advances until their sessions are
    /// inactive.
    pub fn finish(&mut self) {
        self.log_step("all faults end, all CLIs reconnect");
        self.are_alarms_delayed = false;
        self.db.repair();
        for _ in 0..20 {
            for i in 0..self.clis.len() {
                match self.clis[i].phase {
                    Phase::Disconnected => self.cli_connect(i),
                    Phase::Ready => self.cli_resend(i),
                    _ => {}
                }
            }
            self.run_until_idle_and_check();
            self.advance(100);
            if self.clis.iter().all(|cli| cli.is_ready() && cli.unacknowledged.is_empty()) {
                break;
            }
        }
        let has_undelivered = |cli: &&Cli| !cli.unacknowledged.is_empty() && cli.session().is_some();
        let undelivered = self.clis.iter().find(has_undelivered).map(|cli| (cli.session(), &cli.unacknowledged));
        assert!(undelivered.is_none(), "undelivered messages of a CLI: {undelivered:?}");
        self.store_large_once_more();
        self.log_step("all CLIs disconnect");
        for i in 0..self.clis.len() {
            self.cli_disconnect(i);
        }
        for _ in 0..6 {
            self.run_until_idle_and_check();
            self.advance(31_000);
        }
        self.run_until_idle_and_check();
        self.finish_pushes();
        self.advance(DAY_MS);
        self.run_until_idle();
        self.check_end();
    }

    /// Checks that nothing is active or pending, and that the objects can hibernate.
    fn check_end(&mut self) {
        for namespace_index in [TEAM, NEIGHBOUR] {
            let name = self.objects[namespace_index].name;
            assert!(!self.db.has_unknown_outcome(name), "{name} has not determined the outcome of a batch");
            for row in self.read_rows(namespace_index).values() {
                assert!(!row.is_active(), "{} is active without a CLI", row.id);
                let pending = &row.agent_state["requests"];
                let has_pending = pending.as_object().is_some_and(|requests| !requests.is_empty());
                assert!(!has_pending, "{} has been inactive for a day, but has the pending requests {pending}", row.id);
            }
            assert!(self.active_machines(namespace_index) == 0, "a machine is active without a runner");
        }
        let unanswered: Vec<&Purpose> = self.pending.values().map(|request| &request.purpose).collect();
        assert!(unanswered.is_empty(), "requests without a response: {unanswered:?}");
        assert!(self.scheduler.len() == 0, "{} tasks never end", self.scheduler.len());
        for object in &mut self.objects {
            assert!(object.hibernate(), "the object cannot hibernate");
        }
    }
}
