//! Steps of web clients: HTTP requests.

use serde_json::json;

use super::oracle::{Existence, ValueKind};
use super::responses::Purpose;
use super::steps::Step;
use super::world::World;

impl World {
    pub fn web_step(&mut self, step: Step, ns: usize) {
        if matches!(step, Step::ListSessions) {
            let sessions = &self.oracles[ns].sessions;
            let deleted = sessions
                .iter()
                .filter(|(_, known)| known.existence == Existence::Deleted)
                .map(|(id, _)| id.clone())
                .collect();
            self.request(ns, "GET", "/api/sessions?archived=include", String::new(), Purpose::List { deleted });
            return;
        }
        let Some(session) = self.pick_session(ns) else { return };
        match step {
            Step::WebMessage => {
                let local_id = self.new_message(ns);
                let text = format!("{}-{local_id}", self.objects[ns].name);
                self.oracle(ns).record_draft(&local_id, &session, &text);
                self.oracle(ns).messages.get_mut(&local_id).unwrap().by_web = true;
                self.web_send(ns, &local_id);
            }
            Step::WebRepeat => {
                let by_web = self.oracles[ns].messages.iter().filter(|(_, sent)| sent.by_web);
                let by_web: Vec<String> = by_web.map(|(id, _)| id.clone()).collect();
                if let Some(local_id) = self.rng.pick(&by_web) {
                    self.web_send(ns, &local_id);
                }
            }
            Step::Rename => self.rename(ns, session),
            Step::Permission => {
                let approved = self.rng.chance(50);
                if let Some(request) = self.pick_request(ns, &session) {
                    self.answer_permission(ns, &session, &request, approved);
                }
            }
            Step::PermissionRace => {
                if let Some(request) = self.pick_request(ns, &session) {
                    self.answer_permission(ns, &session, &request, true);
                    self.answer_permission(ns, &session, &request, false);
                }
            }
            Step::Abort => self.end_session(ns, session, "abort"),
            Step::Archive => self.end_session(ns, session, "archive"),
            Step::Switch => self.control(ns, session, "switch", String::new()),
            Step::SetMode => {
                let mode = json!({"mode": self.rng.pick(&["default", "plan"])});
                self.control(ns, session, "permission-mode", mode.to_string());
            }
            Step::Delete => {
                let known = self.oracle(ns).session(&session);
                (known.existence, known.deletion_requested) = (Existence::Unknown, true);
                self.oracle(ns).record_end(&session);
                let path = format!("/api/sessions/{session}");
                self.request(ns, "DELETE", &path, String::new(), Purpose::Delete { session });
            }
            Step::Resume => {
                for _ in 0..self.rng.between(1, 2) {
                    self.oracle(ns).record_end(&session);
                    let path = format!("/api/sessions/{session}/resume");
                    let purpose = Purpose::Resume { session: session.clone() };
                    self.request(ns, "POST", &path, String::new(), purpose);
                }
            }
            Step::ReadFile => self.read_file(ns, session),
            _ => {
                let floor = self.oracles[ns].floor(&session);
                let path = format!("/api/sessions/{session}");
                self.request(ns, "GET", &path, String::new(), Purpose::Show { session, floor });
            }
        }
    }

    fn web_send(&mut self, ns: usize, local_id: &str) {
        let sent = &self.oracles[ns].messages[local_id];
        let (session, text) = (sent.session.clone(), sent.text.clone());
        self.oracle(ns).record_send(local_id, None);
        let body = json!({"text": text, "localId": local_id}).to_string();
        let purpose = Purpose::Message { session: session.clone(), local_id: local_id.to_owned() };
        self.request(ns, "POST", &format!("/api/sessions/{session}/messages"), body, purpose);
    }

    fn rename(&mut self, ns: usize, session: String) {
        let name = self.next_number();
        let name = format!("{}-name-{name}", self.objects[ns].name);
        let newest = self.oracles[ns].newest_version(&session, ValueKind::Metadata);
        let expected = self.rng.chance(50).then_some(newest);
        let mut body = json!({"name": name});
        expected.iter().for_each(|expected| body["expectedVersion"] = json!(expected));
        let path = format!("/api/sessions/{session}");
        self.request(ns, "PATCH", &path, body.to_string(), Purpose::Rename { session, name, expected });
    }

    /// A random recent permission request of a session.
    fn pick_request(&mut self, ns: usize, session: &str) -> Option<String> {
        let requests: Vec<String> = self.oracle(ns).session(session).requests.keys().rev().take(3).cloned().collect();
        self.rng.pick(&requests)
    }

    fn answer_permission(&mut self, ns: usize, session: &str, request: &str, approved: bool) {
        let action = if approved { "approve" } else { "deny" };
        let path = format!("/api/sessions/{session}/permissions/{request}/{action}");
        let purpose = Purpose::Permission { session: session.to_owned(), request: request.to_owned(), approved };
        self.request(ns, "POST", &path, String::new(), purpose);
    }

    fn end_session(&mut self, ns: usize, session: String, action: &str) {
        self.oracle(ns).record_end(&session);
        let path = format!("/api/sessions/{session}/{action}");
        self.request(ns, "POST", &path, String::new(), Purpose::End { session });
    }

    fn control(&mut self, ns: usize, session: String, action: &str, body: String) {
        let path = format!("/api/sessions/{session}/{action}");
        self.request(ns, "POST", &path, body, Purpose::Control { session });
    }

    pub fn read_file(&mut self, ns: usize, session: String) {
        let nonce = format!("file-{}", self.next_number());
        let path = format!("/api/sessions/{session}/file?path={nonce}");
        self.request(ns, "GET", &path, String::new(), Purpose::ReadFile { session, nonce });
    }

    /// Spawns a session on a machine.
    pub fn spawn(&mut self, ns: usize) {
        let path = format!("/api/machines/{}/spawn", self.machine_id(ns));
        self.request(ns, "POST", &path, json!({"directory": "/code"}).to_string(), Purpose::Spawn);
    }

    /// Ten clients concurrently register the same new tag.
    pub fn tag_race(&mut self, ns: usize) {
        let race = self.next_number();
        let tag = format!("/{}-race-{race}", self.objects[ns].name);
        for _ in 0..10 {
            self.ask_for_tag(ns, &tag, Purpose::Tag { tag: tag.clone(), cli: None, race: Some(race) });
        }
    }

    /// Requests a session of the other namespace.
    pub fn request_foreign_session(&mut self, ns: usize) {
        let Some(session) = self.pick_session(1 - ns) else { return };
        let (method, end) = self.rng.weighted(&[
            (1, ("GET", "")),
            (1, ("DELETE", "")),
            (1, ("POST", "/archive")),
            (1, ("POST", "/resume")),
            (1, ("GET", "/git-status")),
        ]);
        let path = format!("/api/sessions/{session}{end}");
        self.request(ns, method, &path, String::new(), Purpose::Foreign { session });
    }
}
