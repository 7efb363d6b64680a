//! What the answers to requests mean.

use serde_json::Value;
use session_gateway_hub::hub::error::Error;

use super::cli::Phase;
use super::ledger::{Floor, Stay};
use super::object::Answer;
use super::world::{Asked, LinkId, World};
use crate::support::rest::Reply;

/// What a request was for.
#[derive(Debug, Clone)]
pub enum Purpose {
    /// The session of a tag: for a CLI, or for one of many who ask at once.
    Tag {
        tag: String,
        cli: Option<usize>,
        race: Option<u64>,
    },
    Machine {
        cli: usize,
    },
    /// A page of what a CLI missed; it asked when the session had `floor` messages at least.
    CatchUp {
        cli: usize,
        link: LinkId,
        session: String,
        after: u64,
        limit: u64,
        floor: u64,
    },
    Show {
        session: String,
        floor: Floor,
    },
    /// A session is shown when everything is at rest.
    Compare {
        session: String,
    },
    /// The list, asked for when these sessions were gone.
    List {
        gone: Vec<String>,
    },
    Message {
        session: String,
        local_id: String,
    },
    Rename {
        session: String,
        name: String,
        expected: Option<u64>,
    },
    /// The answer to a permission request.
    Permission {
        session: String,
        request: String,
        approved: bool,
    },
    /// Abort, archive.
    End {
        session: String,
    },
    /// Switch, permission mode.
    Order {
        session: String,
    },
    Delete {
        session: String,
    },
    Resume {
        session: String,
    },
    /// A machine is asked for a new session.
    Spawn,
    ReadFile {
        session: String,
        nonce: String,
    },
    Channel {
        web: usize,
    },
    /// A session of the other namespace.
    Foreign {
        session: String,
    },
    Subscribe {
        endpoint: String,
    },
    Unsubscribe {
        endpoint: String,
    },
    /// A subscription of the other namespace is to end.
    EndForeign,
    PushLog,
}

impl Purpose {
    /// The session that is to be acted upon.
    fn session(&self) -> Option<&str> {
        match self {
            Self::CatchUp { session, .. }
            | Self::Show { session, .. }
            | Self::Compare { session }
            | Self::Message { session, .. }
            | Self::Rename { session, .. }
            | Self::Permission { session, .. }
            | Self::End { session }
            | Self::Order { session }
            | Self::Delete { session }
            | Self::Resume { session }
            | Self::ReadFile { session, .. } => Some(session),
            Self::Tag { .. }
            | Self::Machine { .. }
            | Self::List { .. }
            | Self::Spawn
            | Self::Channel { .. }
            | Self::Foreign { .. }
            | Self::Subscribe { .. }
            | Self::Unsubscribe { .. }
            | Self::EndForeign
            | Self::PushLog => None,
        }
    }

    /// Whether the answer says that a session has ended, or may have.
    pub fn ends(&self, id: &str) -> bool {
        matches!(self, Self::End { session } | Self::Delete { session } | Self::Resume { session } if session == id)
    }
}

impl World {
    /// An answer has come, or never will: the object is gone.
    pub fn answered(&mut self, asked: Asked, answer: Option<Answer>) {
        match answer {
            None => self.unanswered(&asked),
            Some(Answer::Reply(reply)) => self.replied(&asked, &reply),
            Some(Answer::Page(page)) => self.paged(&asked, page),
            Some(Answer::Channel(channel)) => self.channel_opened(&asked, channel),
        }
    }

    fn unanswered(&mut self, asked: &Asked) {
        match &asked.purpose {
            Purpose::Tag { cli: Some(cli), .. } | Purpose::Machine { cli } => self.clis[*cli].phase = Phase::Away,
            Purpose::Channel { web } => self.webs[*web].asking = false,
            Purpose::End { session } | Purpose::Resume { session } => self.ledger(asked.place).end(session),
            Purpose::Subscribe { endpoint } | Purpose::Unsubscribe { endpoint } => {
                self.subscription_changed(endpoint, None);
            }
            _ => {}
        }
    }

    fn replied(&mut self, asked: &Asked, reply: &Reply) {
        let place = asked.place;
        self.check_isolation(place, &reply.text);
        if reply.status == 200 {
            return self.done(asked, &reply.json());
        }
        self.check_refusal(asked, reply);
        match &asked.purpose {
            Purpose::Tag { cli: Some(cli), .. } | Purpose::Machine { cli } => self.clis[*cli].phase = Phase::Away,
            Purpose::End { session } | Purpose::Resume { session } => self.ledger(place).end(session),
            Purpose::Subscribe { endpoint } | Purpose::Unsubscribe { endpoint } => {
                self.subscription_changed(endpoint, None);
            }
            _ => {}
        }
    }

    /// Whether whoever asked may be refused in this way.
    fn check_refusal(&self, asked: &Asked, reply: &Reply) {
        let Asked { place, purpose, faults, .. } = asked;
        let body = reply.json();
        let code = body["code"].as_str().unwrap_or_default();
        let allowed = match (reply.status.as_u16(), code) {
            (503, "hub_unavailable") => self.db.faults() > *faults,
            (500, "rename_failed") => matches!(purpose, Purpose::Rename { .. }) && self.db.faults() > *faults,
            (503, "cli_unreachable" | "cli_refused") | (504, "rpc_timeout") => matches!(
                purpose,
                Purpose::Permission { .. }
                    | Purpose::End { .. }
                    | Purpose::Order { .. }
                    | Purpose::Resume { .. }
                    | Purpose::Spawn
            ),
            (503, "no_machine_online") | (504, "resume_failed") => matches!(purpose, Purpose::Resume { .. }),
            (409, "session_inactive") => matches!(
                purpose,
                Purpose::Message { .. } | Purpose::Permission { .. } | Purpose::End { .. } | Purpose::Order { .. }
            ),
            (409, "mode_not_applied") => matches!(purpose, Purpose::Order { .. }),
            (409, "session_active") => matches!(purpose, Purpose::Delete { .. }),
            (409, "version_conflict") => matches!(purpose, Purpose::Rename { expected: Some(_), .. }),
            // Its runner never came.
            (404, "machine_not_found") => matches!(purpose, Purpose::Spawn),
            (404, "request_not_found") => matches!(purpose, Purpose::Permission { .. }),
            (404, "session_not_found") => match purpose {
                Purpose::Foreign { session } => !self.is_there(1 - place, session),
                own => own.session().is_some_and(|session| !self.is_there(*place, session)),
            },
            (403, "forbidden") => matches!(purpose, Purpose::Foreign { .. }),
            _ => false,
        };
        assert!(allowed, "{purpose:?} was refused: {} {}", reply.status, reply.text);
    }

    fn done(&mut self, asked: &Asked, body: &Value) {
        let place = asked.place;
        match &asked.purpose {
            Purpose::Tag { tag, cli, race } => self.tag_found(place, tag, *cli, *race, &body["session"]),
            Purpose::Machine { cli } => self.cli_opens(*cli),
            Purpose::Show { floor, .. } => self.ledger(place).shown(&body["session"], floor),
            Purpose::Compare { .. } => self.shown.push((place, body["session"].clone())),
            Purpose::List { gone } => {
                let sessions = body["sessions"].as_array().unwrap();
                let shown = sessions.iter().find(|shown| gone.iter().any(|id| shown["id"] == id.as_str()));
                assert!(shown.is_none(), "a session that is gone is in the list: {shown:?}");
            }
            Purpose::Message { session, local_id } => {
                let message = &body["message"];
                let (id, seq) = (message["id"].as_str().unwrap(), message["seq"].as_u64().unwrap());
                assert!(message["localId"] == local_id.as_str(), "{body}");
                self.ledger(place).placed(session, local_id, id, seq);
                self.ledger(place).messages.get_mut(local_id).unwrap().acknowledged = true;
            }
            Purpose::Rename { session, name, expected } => {
                let version = body["metadataVersion"].as_u64().unwrap();
                assert!(expected.is_none_or(|expected| version == expected + 1), "{expected:?} {body}");
                self.ledger(place).named(session, version, name);
            }
            Purpose::Permission { session, request, approved } => {
                let request_known = self.ledger(place).session(session).requests.entry(request.clone()).or_default();
                let before = request_known.answered.replace(*approved);
                assert!(before.is_none(), "request {request} was answered with {before:?}, and again with {approved}");
            }
            Purpose::End { session } => self.ledger(place).end(session),
            Purpose::Delete { session } => {
                let known = self.ledger(place).session(session);
                assert!(known.stay != Stay::Sure, "session {session} was deleted twice");
                known.stay = Stay::Gone;
            }
            Purpose::Resume { session } => self.resumed(place, session, body["sessionId"].as_str().unwrap()),
            Purpose::ReadFile { nonce, .. } => {
                let failed = body["success"] == false && body["error"].is_string();
                assert!(failed || body["echo"] == nonce.as_str(), "{nonce} was asked for, and answered {body}");
            }
            Purpose::Spawn => {
                let known = body["sessionId"].as_str().is_none_or(|id| self.ledgers[place].sessions.contains_key(id));
                assert!(known && body["success"].is_boolean(), "a session was spawned that nobody made: {body}");
            }
            Purpose::Order { .. } | Purpose::EndForeign => {}
            Purpose::Subscribe { endpoint } => self.subscription_changed(endpoint, Some(true)),
            Purpose::Unsubscribe { endpoint } => self.subscription_changed(endpoint, Some(false)),
            Purpose::PushLog => self.check_log(place, body["log"].as_array().unwrap()),
            Purpose::Foreign { .. } => panic!("what is the other namespace's was shown: {body}"),
            Purpose::CatchUp { .. } | Purpose::Channel { .. } => {
                panic!("{asked:?} answered {body}", asked = asked.purpose)
            }
        }
    }

    fn tag_found(&mut self, place: usize, tag: &str, cli: Option<usize>, race: Option<u64>, session: &Value) {
        let id = session["id"].as_str().unwrap();
        assert!(session["tag"] == tag, "{tag} was asked for, and {session} answered");
        self.learn(place, id, tag);
        self.ledger(place).shown(session, &Floor::default());
        if let Some(race) = race {
            let before = self.races.insert(race, id.to_owned());
            // Whoever asks again for a tag whose session was deleted meanwhile gets a new one.
            let other = before.filter(|before| before != id && self.is_there(place, before));
            assert!(other.is_none(), "{tag} was asked for many times at once, and is {other:?} and {id}");
        }
        if let Some(cli) = cli {
            self.cli_has_session(cli, session);
            self.cli_opens(cli);
            self.tell_runner(cli);
        }
    }

    fn paged(&mut self, asked: &Asked, page: Result<String, Error>) {
        let Purpose::CatchUp { cli, link, session, after, limit, floor } = &asked.purpose else {
            panic!("{:?} is no page", asked.purpose);
        };
        let mine = self.clis[*cli].link == Some(*link);
        match page {
            Ok(text) => {
                self.check_isolation(asked.place, &text);
                let page: Value = serde_json::from_str(&text).unwrap();
                self.check_page(asked.place, session, &page, *after, *limit, *floor);
                if mine {
                    self.cli_read_page(*cli, &page);
                }
            }
            Err(error) => {
                let allowed = match error {
                    Error::Unavailable(_) | Error::NotStored => self.db.faults() > asked.faults,
                    Error::Missing(_) => !self.is_there(asked.place, session),
                    _ => false,
                };
                assert!(allowed, "a page of {session} was refused: {error}");
                // It comes back and tries again.
                if mine {
                    self.cli_leaves(*cli);
                }
            }
        }
    }

    /// A page is what was asked for: gapless, and with all that was known before.
    fn check_page(&mut self, place: usize, session: &str, page: &Value, after: u64, limit: u64, floor: u64) {
        let messages = page["messages"].as_array().unwrap();
        messages.iter().for_each(|message| self.ledger(place).message(session, message));
        if self.ledger(place).session(session).shifting {
            return;
        }
        let seqs: Vec<u64> = messages.iter().map(|message| message["seq"].as_u64().unwrap()).collect();
        let end = after + seqs.len() as u64;
        assert!(seqs.iter().copied().eq(after + 1..=end), "a page after {after} has the messages {seqs:?}");
        assert!(seqs.len() as u64 <= limit, "{limit} messages were asked for: {seqs:?}");
        let more = page["hasMore"] == true;
        assert!(more || end >= floor, "a page after {after} ends with {end}, though {floor} messages were known");
        assert!(!more || !seqs.is_empty(), "a page without messages says that there are more");
    }

    fn resumed(&mut self, place: usize, old: &str, active: &str) {
        self.ledger(place).end(old);
        if old == active {
            return;
        }
        let known = self.shifts.iter().any(|shift| shift.place == place && shift.old == old && shift.new == active);
        assert!(known, "{old} was resumed as {active}, which nobody brought");
        let rows = self.db.sqlite.number(&format!("SELECT count(*) FROM sessions WHERE id = '{old}'"));
        assert!(rows == 0, "{old} was resumed as {active}, but is still there");
        self.ledger(place).session(old).stay = Stay::Gone;
    }
}
