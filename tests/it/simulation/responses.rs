//! Responses to requests of clients: checks each response and updates the client.

use serde_json::Value;
use session_gateway_hub::hub::core::error::Error;

use super::cli::Phase;
use super::connections::ConnectionId;
use super::object::Response;
use super::oracle::{Cancellation, Existence, ReportedState};
use super::world::{PendingRequest, World};
use crate::support::rest::Reply;

/// The operation of a request, with the data that is necessary to check the response.
#[derive(Debug, Clone)]
pub enum Purpose {
    /// Registers the session of a tag, for a CLI or in a race.
    Tag {
        tag: String,
        cli: Option<usize>,
        race: Option<u64>,
    },
    Machine {
        cli: usize,
    },
    /// Reads a page of messages that a CLI missed. The session had at least `min_seq` messages before the request.
    CatchUp {
        cli: usize,
        connection: ConnectionId,
        session: String,
        after: u64,
        limit: u64,
        min_seq: u64,
    },
    GetSession {
        session: String,
        reported_state: ReportedState,
    },
    /// Gets a session of an idle world, to compare it with the database.
    Compare {
        session: String,
    },
    /// Lists the sessions. The list must not have the sessions in `deleted`.
    List {
        deleted: Vec<String>,
    },
    Message {
        session: String,
        local_id: String,
    },
    CancelHeld {
        session: String,
        local_id: String,
    },
    Rename {
        session: String,
        name: String,
        expected: Option<u64>,
    },
    Permission {
        session: String,
        request: String,
        approved: bool,
    },
    Archive {
        session: String,
    },
    Abort {
        session: String,
    },
    /// Switches a session to remote mode, or sets its permission mode.
    SwitchOrSetMode {
        session: String,
    },
    Delete {
        session: String,
    },
    Resume {
        session: String,
    },
    Spawn,
    ReadFile {
        session: String,
        nonce: String,
    },
    EventStream {
        web: usize,
    },
    /// Requests a session of the other namespace.
    ForeignSession {
        session: String,
    },
    Subscribe {
        endpoint: String,
    },
    Unsubscribe {
        endpoint: String,
    },
    UnsubscribeForeign,
    PushLog,
    /// Loads a session that fills the hub's memory.
    Filler,
}

impl Purpose {
    /// The session of the client's own namespace that the request is about.
    fn session(&self) -> Option<&str> {
        match self {
            Self::CatchUp { session, .. }
            | Self::GetSession { session, .. }
            | Self::Compare { session }
            | Self::Message { session, .. }
            | Self::CancelHeld { session, .. }
            | Self::Rename { session, .. }
            | Self::Permission { session, .. }
            | Self::Archive { session }
            | Self::Abort { session }
            | Self::SwitchOrSetMode { session }
            | Self::Delete { session }
            | Self::Resume { session }
            | Self::ReadFile { session, .. } => Some(session),
            Self::Tag { .. }
            | Self::Machine { .. }
            | Self::List { .. }
            | Self::Spawn
            | Self::EventStream { .. }
            | Self::ForeignSession { .. }
            | Self::Subscribe { .. }
            | Self::Unsubscribe { .. }
            | Self::UnsubscribeForeign
            | Self::PushLog
            | Self::Filler => None,
        }
    }

    /// Whether the request may end the session `id`.
    pub fn ends(&self, id: &str) -> bool {
        let (Self::Archive { session } | Self::Abort { session } | Self::Delete { session } | Self::Resume { session }) =
            self
        else {
            return false;
        };
        session == id
    }
}

impl World {
    /// Handles a response; `None` if it was lost in a crash of the object.
    pub fn on_response(&mut self, request: PendingRequest, response: Option<Response>) {
        match response {
            None => self.on_lost_response(&request),
            Some(Response::Reply(reply)) => self.on_reply(&request, &reply),
            Some(Response::Page(page)) => self.on_page(&request, page),
            Some(Response::EventStream(opened)) => self.web_on_event_stream(&request, opened),
        }
    }

    fn on_lost_response(&mut self, request: &PendingRequest) {
        match &request.purpose {
            Purpose::Tag { cli: Some(cli), .. } | Purpose::Machine { cli } => {
                self.clis[*cli].phase = Phase::Disconnected
            }
            Purpose::EventStream { web } => self.webs[*web].is_connecting = false,
            Purpose::Archive { session } | Purpose::Abort { session } | Purpose::Resume { session } => {
                self.oracle(request.namespace_index).record_possible_end(session)
            }
            Purpose::Subscribe { endpoint } | Purpose::Unsubscribe { endpoint } => {
                self.on_subscription_changed(endpoint, None);
            }
            _ => {}
        }
    }

    fn on_reply(&mut self, request: &PendingRequest, reply: &Reply) {
        let namespace_index = request.namespace_index;
        self.check_isolation(namespace_index, &reply.text);
        if reply.status == 200 {
            return self.on_success(request, &reply.json());
        }
        self.check_error(request, reply);
        match &request.purpose {
            Purpose::Tag { cli: Some(cli), .. } | Purpose::Machine { cli } => {
                self.clis[*cli].phase = Phase::Disconnected
            }
            Purpose::Archive { session } | Purpose::Abort { session } | Purpose::Resume { session } => {
                self.oracle(namespace_index).record_possible_end(session);
            }
            Purpose::Subscribe { endpoint } | Purpose::Unsubscribe { endpoint } => {
                self.on_subscription_changed(endpoint, None);
            }
            Purpose::CancelHeld { local_id, .. } if reply.json()["code"] == "held_message_not_found" => {
                self.oracle(namespace_index).messages.get_mut(local_id).unwrap().cancellation =
                    Some(Cancellation::Refused);
            }
            _ => {}
        }
    }

    /// Checks that an error response is allowed.
    fn check_error(&self, request: &PendingRequest, reply: &Reply) {
        let PendingRequest { namespace_index, purpose, faults, .. } = request;
        let body = reply.json();
        let code = body["code"].as_str().unwrap_or_default();
        let allowed = match (reply.status.as_u16(), code) {
            (503, "hub_unavailable") => self.db.fault_count() > *faults,
            (500, "rename_failed") => matches!(purpose, Purpose::Rename { .. }) && self.db.fault_count() > *faults,
            (503, "cli_unreachable" | "cli_refused") | (504, "rpc_timeout") => matches!(
                purpose,
                Purpose::Permission { .. }
                    | Purpose::Abort { .. }
                    | Purpose::SwitchOrSetMode { .. }
                    | Purpose::Resume { .. }
                    | Purpose::Spawn
            ),
            (503, "no_machine_online") | (504, "resume_failed") => matches!(purpose, Purpose::Resume { .. }),
            (409, "session_inactive") => matches!(
                purpose,
                Purpose::Message { .. }
                    | Purpose::Permission { .. }
                    | Purpose::Abort { .. }
                    | Purpose::SwitchOrSetMode { .. }
            ),
            (409, "too_many_held_messages") => matches!(purpose, Purpose::Message { .. }),
            (404, "held_message_not_found") => matches!(purpose, Purpose::CancelHeld { .. }),
            (409, "mode_not_applied") => matches!(purpose, Purpose::SwitchOrSetMode { .. }),
            (409, "session_active") => matches!(purpose, Purpose::Delete { .. }),
            (409, "version_conflict") => matches!(purpose, Purpose::Rename { expected: Some(_), .. }),
            // The runner of the machine has not registered yet.
            (404, "machine_not_found") => matches!(purpose, Purpose::Spawn),
            (404, "request_not_found") => matches!(purpose, Purpose::Permission { .. }),
            (404, "session_not_found") => match purpose {
                Purpose::ForeignSession { session } => !self.exists(1 - namespace_index, session),
                purpose => purpose.session().is_some_and(|session| !self.exists(*namespace_index, session)),
            },
            (403, "forbidden") => matches!(purpose, Purpose::ForeignSession { .. }),
            _ => false,
        };
        assert!(allowed, "unexpected response to {purpose:?}: {} {}", reply.status, reply.text);
    }

    fn on_success(&mut self, request: &PendingRequest, body: &Value) {
        let namespace_index = request.namespace_index;
        match &request.purpose {
            Purpose::Tag { tag, cli, race } => self.on_session(namespace_index, tag, *cli, *race, &body["session"]),
            Purpose::Machine { cli } => self.cli_open_socket(*cli),
            Purpose::GetSession { reported_state, .. } => {
                self.oracle(namespace_index).observe_snapshot(&body["session"], reported_state);
            }
            Purpose::Compare { .. } => self.sessions_to_compare.push((namespace_index, body["session"].clone())),
            Purpose::List { deleted } => {
                let sessions = body["sessions"].as_array().unwrap();
                let listed = sessions.iter().find(|session| deleted.iter().any(|id| session["id"] == id.as_str()));
                assert!(listed.is_none(), "the list has a deleted session: {listed:?}");
            }
            Purpose::CancelHeld { local_id, .. } => {
                self.oracle(namespace_index).messages.get_mut(local_id).unwrap().cancellation =
                    Some(Cancellation::Canceled);
            }
            Purpose::Message { local_id, .. } if body["held"] == true => {
                assert!(body["message"]["localId"] == local_id.as_str(), "{body}");
                self.oracle(namespace_index).messages.get_mut(local_id).unwrap().is_held = true;
            }
            Purpose::Message { session, local_id } => {
                let message = &body["message"];
                let (id, seq) = (message["id"].as_str().unwrap(), message["seq"].as_u64().unwrap());
                assert!(message["localId"] == local_id.as_str(), "{body}");
                self.oracle(namespace_index).observe_position(session, local_id, id, seq);
                self.oracle(namespace_index).messages.get_mut(local_id).unwrap().is_acknowledged = true;
            }
            Purpose::Rename { session, name, expected } => {
                let version = body["metadataVersion"].as_u64().unwrap();
                assert!(expected.is_none_or(|expected| version == expected + 1), "{expected:?} {body}");
                self.oracle(namespace_index).observe_name(session, version, name);
            }
            Purpose::Permission { session, request, approved } => {
                let record = self.oracle(namespace_index).session(session).requests.entry(request.clone()).or_default();
                let previous = record.approved.replace(*approved);
                assert!(previous.is_none(), "request {request} was answered twice: {previous:?} and {approved}");
            }
            Purpose::Archive { session } => self.oracle(namespace_index).record_possible_end(session),
            Purpose::Abort { session } => self.oracle(namespace_index).session(session).aborts += 1,
            Purpose::Delete { session } => {
                let record = self.oracle(namespace_index).session(session);
                assert!(record.existence != Existence::Certain, "session {session} was deleted twice");
                record.existence = Existence::Deleted;
            }
            Purpose::Resume { session } => {
                self.on_resumed(namespace_index, session, body["sessionId"].as_str().unwrap())
            }
            Purpose::ReadFile { nonce, .. } => {
                let failed = body["success"] == false && body["error"].is_string();
                assert!(failed || body["echo"] == nonce.as_str(), "the response to {nonce} is {body}");
            }
            Purpose::Filler => {}
            Purpose::Spawn => {
                let is_known =
                    body["sessionId"].as_str().is_none_or(|id| self.oracles[namespace_index].sessions.contains_key(id));
                assert!(is_known && body["success"].is_boolean(), "an unknown session was spawned: {body}");
            }
            Purpose::SwitchOrSetMode { .. } | Purpose::UnsubscribeForeign => {}
            Purpose::Subscribe { endpoint } => self.on_subscription_changed(endpoint, Some(true)),
            Purpose::Unsubscribe { endpoint } => self.on_subscription_changed(endpoint, Some(false)),
            Purpose::PushLog => self.check_log(namespace_index, body["log"].as_array().unwrap()),
            Purpose::ForeignSession { .. } => panic!("a response has data of the other namespace: {body}"),
            Purpose::CatchUp { .. } | Purpose::EventStream { .. } => {
                panic!("unexpected response to {:?}: {body}", request.purpose)
            }
        }
    }

    fn on_session(
        &mut self,
        namespace_index: usize,
        tag: &str,
        cli: Option<usize>,
        race: Option<u64>,
        session: &Value,
    ) {
        let id = session["id"].as_str().unwrap();
        assert!(session["tag"] == tag, "the response to {tag} is {session}");
        self.observe_session(namespace_index, id, tag);
        self.oracle(namespace_index).observe_snapshot(session, &ReportedState::default());
        if let Some(race) = race {
            let previous = self.session_by_race.insert(race, id.to_owned());
            // A request after a deletion of the session gets a new one.
            let other = previous.filter(|previous| previous != id && self.exists(namespace_index, previous));
            assert!(other.is_none(), "concurrent requests for {tag} received {other:?} and {id}");
        }
        if let Some(cli) = cli {
            self.cli_on_session(cli, session);
            self.cli_open_socket(cli);
            self.report_spawned(cli);
        }
    }

    fn on_page(&mut self, request: &PendingRequest, page: Result<String, Error>) {
        let Purpose::CatchUp { cli, connection, session, after, limit, min_seq } = &request.purpose else {
            panic!("{:?} is not a page", request.purpose);
        };
        let is_current = self.clis[*cli].connection == Some(*connection);
        match page {
            Ok(text) => {
                self.check_isolation(request.namespace_index, &text);
                let page: Value = serde_json::from_str(&text).unwrap();
                self.check_page(request.namespace_index, session, &page, *after, *limit, *min_seq);
                if is_current {
                    self.cli_on_page(*cli, &page);
                }
            }
            Err(error) => {
                let allowed = match error {
                    Error::Unavailable(_) | Error::DatabaseRejected => self.db.fault_count() > request.faults,
                    Error::NotFound(_) => !self.exists(request.namespace_index, session),
                    _ => false,
                };
                assert!(allowed, "unexpected error for a page of {session}: {error}");
                // The CLI retries after a reconnect.
                if is_current {
                    self.cli_disconnect(*cli);
                }
            }
        }
    }

    /// Checks that the seqs of a page have no gaps, and that the last page has all messages up to `min_seq`.
    fn check_page(
        &mut self,
        namespace_index: usize,
        session: &str,
        page: &Value,
        after: u64,
        limit: u64,
        min_seq: u64,
    ) {
        let messages = page["messages"].as_array().unwrap();
        messages.iter().for_each(|message| self.oracle(namespace_index).observe_stored_message(session, message));
        if self.oracle(namespace_index).session(session).is_merging {
            return;
        }
        let seqs: Vec<u64> = messages.iter().map(|message| message["seq"].as_u64().unwrap()).collect();
        let end = after + seqs.len() as u64;
        assert!(seqs.iter().copied().eq(after + 1..=end), "a page after {after} has the seqs {seqs:?}");
        assert!(seqs.len() as u64 <= limit, "a page with the limit {limit} has the seqs {seqs:?}");
        let has_more = page["hasMore"] == true;
        assert!(
            has_more || end >= min_seq,
            "the last page after {after} ends with {end}, but {min_seq} messages exist"
        );
        assert!(!has_more || !seqs.is_empty(), "an empty page with hasMore");
    }

    fn on_resumed(&mut self, namespace_index: usize, old: &str, active: &str) {
        self.oracle(namespace_index).record_possible_end(old);
        if old == active {
            return;
        }
        let was_reported = self
            .merges_in_progress
            .iter()
            .any(|merge| merge.namespace_index == namespace_index && merge.old == old && merge.new == active);
        assert!(was_reported, "{old} was resumed as {active}, which no runner reported");
        let rows = self
            .db
            .sqlite
            .number(&format!("SELECT count(*) FROM sessions WHERE id = '{old}' AND namespace NOT GLOB '/*'"));
        assert!(rows == 0, "{old} was resumed as {active}, but still exists");
        self.oracle(namespace_index).session(old).existence = Existence::Deleted;
    }
}
