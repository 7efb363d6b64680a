//! The steps in which a web client sends an HTTP request.

use serde_json::json;

use super::oracle::{Cancellation, Existence, SentMessage, ValueKind};
use super::responses::Purpose;
use super::steps::Step;
use super::world::World;

impl World {
    pub fn web_step(&mut self, step: Step, namespace_index: usize) {
        if matches!(step, Step::ListSessions) {
            let sessions = &self.oracles[namespace_index].sessions;
            let deleted = sessions
                .iter()
                .filter(|(_, record)| record.existence == Existence::Deleted)
                .map(|(id, _)| id.clone())
                .collect();
            self.request(
                namespace_index,
                "GET",
                "/api/sessions?archived=include",
                String::new(),
                Purpose::List { deleted },
            );
            return;
        }
        let Some(session) = self.pick_session(namespace_index) else { return };
        match step {
            Step::WebMessage => {
                let local_id = self.new_local_id(namespace_index);
                let text = format!("{}-{local_id}", self.objects[namespace_index].name);
                self.oracle(namespace_index).record_draft(&local_id, &session, &text);
                self.oracle(namespace_index).messages.get_mut(&local_id).unwrap().is_from_web = true;
                self.send_web_message(namespace_index, &local_id);
            }
            Step::WebRepeat => {
                // After it was canceled, a local id belongs to a new message.
                let is_repeatable = |sent: &SentMessage| sent.is_from_web && sent.cancellation.is_none();
                let sent_by_web = self.oracles[namespace_index].messages.iter().filter(|(_, sent)| is_repeatable(sent));
                let sent_by_web: Vec<String> = sent_by_web.map(|(id, _)| id.clone()).collect();
                if let Some(local_id) = self.rng.pick(&sent_by_web) {
                    self.send_web_message(namespace_index, &local_id);
                }
            }
            Step::CancelHeld => {
                // A repeated request in flight could store the message again.
                let is_cancelable =
                    |sent: &SentMessage| sent.is_held && sent.connections.len() == 1 && sent.cancellation.is_none();
                let held = self.oracles[namespace_index].messages.iter().filter(|(_, sent)| is_cancelable(sent));
                let held: Vec<String> = held.map(|(id, _)| id.clone()).collect();
                if let Some(local_id) = self.rng.pick(&held) {
                    self.cancel_held(namespace_index, &local_id);
                }
            }
            Step::Rename => self.rename(namespace_index, session),
            Step::Permission => {
                let approved = self.rng.chance(50);
                if let Some(request) = self.pick_request(namespace_index, &session) {
                    self.answer_permission(namespace_index, &session, &request, approved);
                }
            }
            Step::PermissionRace => {
                if let Some(request) = self.pick_request(namespace_index, &session) {
                    self.answer_permission(namespace_index, &session, &request, true);
                    self.answer_permission(namespace_index, &session, &request, false);
                }
            }
            Step::Abort => self.archive_or_abort(namespace_index, "abort", Purpose::Abort { session }),
            Step::Archive => self.archive_or_abort(namespace_index, "archive", Purpose::Archive { session }),
            Step::SwitchToRemote => self.switch_or_set_mode(namespace_index, session, "switch", String::new()),
            Step::SetMode => {
                let mode = json!({"mode": self.rng.pick(&["default", "plan"])});
                self.switch_or_set_mode(namespace_index, session, "permission-mode", mode.to_string());
            }
            Step::Delete => {
                let record = self.oracle(namespace_index).session(&session);
                (record.existence, record.is_deletion_requested) = (Existence::Unknown, true);
                self.oracle(namespace_index).record_possible_end(&session);
                let path = format!("/api/sessions/{session}");
                self.request(namespace_index, "DELETE", &path, String::new(), Purpose::Delete { session });
            }
            Step::Resume => {
                for _ in 0..self.rng.between(1, 2) {
                    self.oracle(namespace_index).record_possible_end(&session);
                    let path = format!("/api/sessions/{session}/resume");
                    let purpose = Purpose::Resume { session: session.clone() };
                    self.request(namespace_index, "POST", &path, String::new(), purpose);
                }
            }
            Step::ReadFile => self.read_file(namespace_index, session),
            _ => self.get_session(namespace_index, &session),
        }
    }

    pub fn get_session(&mut self, namespace_index: usize, session: &str) {
        let reported_state = self.oracles[namespace_index].reported_state(session);
        let path = format!("/api/sessions/{session}");
        let purpose = Purpose::GetSession { session: session.to_owned(), reported_state };
        self.request(namespace_index, "GET", &path, String::new(), purpose);
    }

    fn send_web_message(&mut self, namespace_index: usize, local_id: &str) {
        let sent = &self.oracles[namespace_index].messages[local_id];
        let (session, text) = (sent.session.clone(), sent.text.clone());
        self.oracle(namespace_index).record_send(local_id, None);
        let hold = self.rng.chance(60);
        let body = json!({"text": text, "localId": local_id, "hold": hold}).to_string();
        let purpose = Purpose::Message { session: session.clone(), local_id: local_id.to_owned() };
        self.request(namespace_index, "POST", &format!("/api/sessions/{session}/messages"), body, purpose);
    }

    fn cancel_held(&mut self, namespace_index: usize, local_id: &str) {
        let sent = self.oracle(namespace_index).messages.get_mut(local_id).unwrap();
        sent.cancellation = Some(Cancellation::Unknown);
        let session = sent.session.clone();
        let path = format!("/api/sessions/{session}/held-messages/{local_id}");
        let purpose = Purpose::CancelHeld { session, local_id: local_id.to_owned() };
        self.request(namespace_index, "DELETE", &path, String::new(), purpose);
    }

    fn rename(&mut self, namespace_index: usize, session: String) {
        let name = self.next_number();
        let name = format!("{}-name-{name}", self.objects[namespace_index].name);
        let newest = self.oracles[namespace_index].newest_version(&session, ValueKind::Metadata);
        let expected = self.rng.chance(50).then_some(newest);
        let mut body = json!({"name": name});
        expected.iter().for_each(|expected| body["expectedVersion"] = json!(expected));
        let path = format!("/api/sessions/{session}");
        self.request(namespace_index, "PATCH", &path, body.to_string(), Purpose::Rename { session, name, expected });
    }

    /// A random recent permission request of a session.
    fn pick_request(&mut self, namespace_index: usize, session: &str) -> Option<String> {
        let requests: Vec<String> = self
            .oracle(namespace_index)
            .session(session)
            .requests
            .iter()
            .rev()
            .filter(|(_, request)| request.is_acknowledged)
            .take(3)
            .map(|(id, _)| id.clone())
            .collect();
        self.rng.pick(&requests)
    }

    fn answer_permission(&mut self, namespace_index: usize, session: &str, request: &str, approved: bool) {
        let action = if approved { "approve" } else { "deny" };
        let path = format!("/api/sessions/{session}/permissions/{request}/{action}");
        let purpose = Purpose::Permission { session: session.to_owned(), request: request.to_owned(), approved };
        self.request(namespace_index, "POST", &path, String::new(), purpose);
    }

    fn archive_or_abort(&mut self, namespace_index: usize, action: &str, purpose: Purpose) {
        let (Purpose::Archive { session } | Purpose::Abort { session }) = &purpose else { return };
        self.oracle(namespace_index).record_possible_end(session);
        self.oracle(namespace_index).session(session).is_archive_requested |= action == "archive";
        let path = format!("/api/sessions/{session}/{action}");
        self.request(namespace_index, "POST", &path, String::new(), purpose);
    }

    /// Switches the session to remote mode, or sets its permission mode.
    fn switch_or_set_mode(&mut self, namespace_index: usize, session: String, action: &str, body: String) {
        let path = format!("/api/sessions/{session}/{action}");
        self.request(namespace_index, "POST", &path, body, Purpose::SwitchOrSetMode { session });
    }

    pub fn read_file(&mut self, namespace_index: usize, session: String) {
        let nonce = format!("file-{}", self.next_number());
        let path = format!("/api/sessions/{session}/file?path={nonce}");
        self.request(namespace_index, "GET", &path, String::new(), Purpose::ReadFile { session, nonce });
    }

    /// Spawns a session on a machine.
    pub fn spawn(&mut self, namespace_index: usize) {
        let path = format!("/api/machines/{}/spawn", self.machine_id(namespace_index));
        self.request(namespace_index, "POST", &path, json!({"directory": "/code"}).to_string(), Purpose::Spawn);
    }

    /// Sends ten concurrent requests to create a session, all with the same new tag.
    pub fn race_for_tag(&mut self, namespace_index: usize) {
        let race = self.next_number();
        let tag = format!("/{}-race-{race}", self.objects[namespace_index].name);
        for _ in 0..10 {
            self.request_session(namespace_index, &tag, Purpose::Tag { tag: tag.clone(), cli: None, race: Some(race) });
        }
    }

    /// Requests a session of the other namespace.
    pub fn request_foreign_session(&mut self, namespace_index: usize) {
        let Some(session) = self.pick_session(1 - namespace_index) else { return };
        let (method, suffix) = self.rng.weighted(&[
            (1, ("GET", "")),
            (1, ("DELETE", "")),
            (1, ("POST", "/archive")),
            (1, ("POST", "/resume")),
            (1, ("GET", "/git-status")),
        ]);
        let path = format!("/api/sessions/{session}{suffix}");
        self.request(namespace_index, method, &path, String::new(), Purpose::ForeignSession { session });
    }
}
