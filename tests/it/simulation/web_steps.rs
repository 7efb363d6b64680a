//! What web clients ask for, each when its step comes.

use serde_json::json;

use super::ledger::{Part, Stay};
use super::replies::Purpose;
use super::steps::Step;
use super::world::World;

impl World {
    pub fn web_step(&mut self, step: Step, place: usize) {
        if matches!(step, Step::List) {
            let sessions = &self.ledgers[place].sessions;
            let gone =
                sessions.iter().filter(|(_, known)| known.stay == Stay::Gone).map(|(id, _)| id.clone()).collect();
            self.request(place, "GET", "/api/sessions?archived=include", String::new(), Purpose::List { gone });
            return;
        }
        let Some(session) = self.some_session(place) else { return };
        match step {
            Step::WebMessage => {
                let local_id = self.new_message(place);
                let text = format!("{}-{local_id}", self.objects[place].name);
                self.ledger(place).draft(&local_id, &session, &text);
                self.ledger(place).messages.get_mut(&local_id).unwrap().by_web = true;
                self.web_sends(place, &local_id);
            }
            Step::WebRepeats => {
                let by_web = self.ledgers[place].messages.iter().filter(|(_, sent)| sent.by_web);
                let by_web: Vec<String> = by_web.map(|(id, _)| id.clone()).collect();
                if let Some(local_id) = self.dice.pick(&by_web) {
                    self.web_sends(place, &local_id);
                }
            }
            Step::Rename => self.rename(place, session),
            Step::Permission => {
                let approved = self.dice.chance(50);
                if let Some(request) = self.some_request(place, &session) {
                    self.answer_permission(place, &session, &request, approved);
                }
            }
            Step::PermissionRace => {
                if let Some(request) = self.some_request(place, &session) {
                    self.answer_permission(place, &session, &request, true);
                    self.answer_permission(place, &session, &request, false);
                }
            }
            Step::Abort => self.end_session(place, session, "abort"),
            Step::Archive => self.end_session(place, session, "archive"),
            Step::Switch => self.order(place, session, "switch", String::new()),
            Step::Mode => {
                let mode = json!({"mode": self.dice.pick(&["default", "plan"])});
                self.order(place, session, "permission-mode", mode.to_string());
            }
            Step::Delete => {
                let known = self.ledger(place).session(&session);
                (known.stay, known.deleted) = (Stay::Doubtful, true);
                self.ledger(place).end(&session);
                let path = format!("/api/sessions/{session}");
                self.request(place, "DELETE", &path, String::new(), Purpose::Delete { session });
            }
            Step::Resume => {
                for _ in 0..self.dice.between(1, 2) {
                    self.ledger(place).end(&session);
                    let path = format!("/api/sessions/{session}/resume");
                    let purpose = Purpose::Resume { session: session.clone() };
                    self.request(place, "POST", &path, String::new(), purpose);
                }
            }
            Step::ReadFile => self.read_file(place, session),
            _ => {
                let floor = self.ledgers[place].floor(&session);
                let path = format!("/api/sessions/{session}");
                self.request(place, "GET", &path, String::new(), Purpose::Show { session, floor });
            }
        }
    }

    fn web_sends(&mut self, place: usize, local_id: &str) {
        let sent = &self.ledgers[place].messages[local_id];
        let (session, text) = (sent.session.clone(), sent.text.clone());
        self.ledger(place).send(local_id, None);
        let body = json!({"text": text, "localId": local_id}).to_string();
        let purpose = Purpose::Message { session: session.clone(), local_id: local_id.to_owned() };
        self.request(place, "POST", &format!("/api/sessions/{session}/messages"), body, purpose);
    }

    fn rename(&mut self, place: usize, session: String) {
        let name = self.fresh();
        let name = format!("{}-name-{name}", self.objects[place].name);
        let newest = self.ledgers[place].newest(&session, Part::Metadata);
        let expected = self.dice.chance(50).then_some(newest);
        let mut body = json!({"name": name});
        expected.iter().for_each(|expected| body["expectedVersion"] = json!(expected));
        let path = format!("/api/sessions/{session}");
        self.request(place, "PATCH", &path, body.to_string(), Purpose::Rename { session, name, expected });
    }

    /// A request that somebody asked about in a session.
    fn some_request(&mut self, place: usize, session: &str) -> Option<String> {
        let requests: Vec<String> =
            self.ledger(place).session(session).requests.keys().rev().take(3).cloned().collect();
        self.dice.pick(&requests)
    }

    fn answer_permission(&mut self, place: usize, session: &str, request: &str, approved: bool) {
        let word = if approved { "approve" } else { "deny" };
        let path = format!("/api/sessions/{session}/permissions/{request}/{word}");
        let purpose = Purpose::Permission { session: session.to_owned(), request: request.to_owned(), approved };
        self.request(place, "POST", &path, String::new(), purpose);
    }

    fn end_session(&mut self, place: usize, session: String, word: &str) {
        self.ledger(place).end(&session);
        let path = format!("/api/sessions/{session}/{word}");
        self.request(place, "POST", &path, String::new(), Purpose::End { session });
    }

    fn order(&mut self, place: usize, session: String, word: &str, body: String) {
        let path = format!("/api/sessions/{session}/{word}");
        self.request(place, "POST", &path, body, Purpose::Order { session });
    }

    pub fn read_file(&mut self, place: usize, session: String) {
        let nonce = format!("file-{}", self.fresh());
        let path = format!("/api/sessions/{session}/file?path={nonce}");
        self.request(place, "GET", &path, String::new(), Purpose::ReadFile { session, nonce });
    }

    /// A machine is to start an agent for a new session.
    pub fn spawn(&mut self, place: usize) {
        let path = format!("/api/machines/{}/spawn", self.machine_of(place));
        self.request(place, "POST", &path, json!({"directory": "/code"}).to_string(), Purpose::Spawn);
    }

    /// Ten clients ask for a new tag at once: they get one session.
    pub fn tag_race(&mut self, place: usize) {
        let race = self.fresh();
        let tag = format!("/{}-race-{race}", self.objects[place].name);
        for _ in 0..10 {
            self.ask_for_tag(place, &tag, Purpose::Tag { tag: tag.clone(), cli: None, race: Some(race) });
        }
    }

    /// Somebody tries what is the other namespace's.
    pub fn foreign(&mut self, place: usize) {
        let Some(session) = self.some_session(1 - place) else { return };
        let (method, end) = self.dice.weighted(&[
            (1, ("GET", "")),
            (1, ("DELETE", "")),
            (1, ("POST", "/archive")),
            (1, ("POST", "/resume")),
            (1, ("GET", "/git-status")),
        ]);
        let path = format!("/api/sessions/{session}{end}");
        self.request(place, method, &path, String::new(), Purpose::Foreign { session });
    }
}
