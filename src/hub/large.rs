//! Values larger than a row. Memory holds their heads; the whole is in the journal until it is durable, and is read from
//! the database when somebody asks for it, for one at a time.

use std::sync::Arc;

use serde::Serialize;

use super::error::{Error, Kind};
use super::state::cache::Entry;
use super::state::completed_requests::CompletedRequests;
use super::state::effect::Effect;
use super::{Hub, State};
use crate::model::agent_state;
use crate::model::json::{Json, JsonObject};
use crate::model::large::{Field, LargeRef};
use crate::model::machine::Machine;
use crate::model::session::Session;
use crate::store::journal::Journal;
use crate::store::response_budget::ResponseText;
use crate::store::values;
use crate::store::values::LargeValue;

/// One of a session's versioned values.
pub(super) struct Part {
    pub version: fn(&Session) -> u64,
    /// Its head, and where the whole of a large one is.
    pub kept: fn(&Session) -> (Option<&Json>, Option<&LargeRef>),
}

/// The metadata.
pub(super) const METADATA: Part =
    Part { version: |s| s.metadata_version, kept: |s| (s.metadata.as_ref(), s.metadata_large.as_ref()) };
/// The agent state without its completed requests.
pub(super) const AGENT_STATE: Part =
    Part { version: |s| s.agent_state_version, kept: |s| (s.agent_state.as_ref(), s.agent_state_large.as_ref()) };
/// The same; nothing where no request waits.
pub(super) const PENDING: Part = Part {
    version: |s| s.agent_state_version,
    kept: |s| match agent_state::count_pending(s.agent_state.as_ref()) {
        0 => (None, None),
        _ => (AGENT_STATE.kept)(s),
    },
};

/// A piece of an answer.
enum Piece {
    Own(String),
    /// The whole of a large value; an open one without its closing brace.
    Whole {
        large: LargeRef,
        open: bool,
    },
}

impl Hub {
    /// What memory holds of a new value, in the place of an older one. The whole of a large one is noted.
    pub(super) fn keep(
        &self,
        journal: &mut Journal<Effect>,
        (owner, field): (&str, Field),
        version: u64,
        old: Option<&LargeRef>,
        value: Option<Json>,
    ) -> (Option<Json>, Option<LargeRef>) {
        self.keep_within(field.max_inline_bytes(), journal, (owner, field), version, old, value)
    }

    /// The same where a value of more than so many bytes is a large one.
    pub(super) fn keep_within(
        &self,
        max_inline_bytes: usize,
        journal: &mut Journal<Effect>,
        (owner, field): (&str, Field),
        version: u64,
        old: Option<&LargeRef>,
        value: Option<Json>,
    ) -> (Option<Json>, Option<LargeRef>) {
        let is_large = value.as_ref().is_some_and(|value| value.text().len() > max_inline_bytes);
        if is_large || old.is_some() {
            journal.delete_replaced_values(owner);
        }
        match value {
            Some(value) if is_large => {
                let value = LargeValue::new(owner, version, self.new_id(), value);
                let kept = (Some(field.excerpt(&value.value)), Some(value.large.clone()));
                journal.queue_value(value);
                kept
            }
            value => (value, None),
        }
    }

    /// Changes a session by one of its values, whole; once more when it is another one by the time that it is read.
    pub(super) async fn change<T>(
        self: &Arc<Self>,
        id: &str,
        part: &Part,
        mut change: impl FnMut(&mut State, Option<Json>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        loop {
            self.load_session(id).await?;
            let large = {
                let mut state = self.state();
                let Some(entry) = state.cache.entry(id) else { continue };
                match (part.kept)(&entry.session) {
                    (value, None) => {
                        let value = value.cloned();
                        return change(&mut state, value);
                    }
                    (_, Some(large)) => large.clone(),
                }
            };
            let _turn = self.large_reads.lock().await;
            let whole = self.whole(id, &large).await?;
            let mut state = self.state();
            let entry = state.cache.entry(id);
            let stands = entry.is_some_and(|entry| (part.kept)(&entry.session).1 == Some(&large));
            match whole {
                Some(whole) if stands => return change(&mut state, Some(whole)),
                None if stands => return Err(unreadable()),
                _ => {}
            }
        }
    }

    /// The whole of a large value, once it is durable; none when another one took its place.
    pub(super) async fn whole(self: &Arc<Self>, owner: &str, large: &LargeRef) -> Result<Option<Json>, Error> {
        self.flushed().await?;
        self.durable_whole(owner, large).await
    }

    /// The whole of a large value that is durable, or noted; none when another one took its place.
    pub(super) async fn durable_whole(&self, owner: &str, large: &LargeRef) -> Result<Option<Json>, Error> {
        if let Some(value) = self.state().journal.find_queued_value(large) {
            return Ok(Some(value));
        }
        let mut text = String::with_capacity(large.bytes);
        let found = values::append(&mut text, &self.db, &self.config.namespace, owner, large).await?;
        Ok(found.then_some(text).and_then(Json::from_string))
    }

    /// A session as JSON text, whole as clients see it, once everything it shows is durable.
    pub async fn session_text(self: &Arc<Self>, id: &str) -> Result<ResponseText, Error> {
        let show = |state: &State| state.cache.entry(id).map(Entry::pieces).ok_or(Error::NotFound(Kind::Session));
        let mut outdated = Vec::new();
        loop {
            self.load_with_details(id).await?;
            let pieces = show(&self.state())?;
            if let Some(text) = self.text_of(id, pieces, &mut outdated).await? {
                return Ok(text);
            }
        }
    }

    /// A machine as JSON text, once everything it shows is durable.
    pub async fn machine_text(self: &Arc<Self>, id: &str) -> Result<ResponseText, Error> {
        let machine = |state: &State| state.cache.machine(id).map(pieces_of_machine);
        let mut outdated = Vec::new();
        loop {
            self.load_machine(id).await?;
            let pieces = machine(&self.state())?;
            if let Some(text) = self.text_of(id, pieces, &mut outdated).await? {
                return Ok(text);
            }
        }
    }

    /// Pieces in one text, once all of it is durable; none when a value is not the one any more that it was. Those that
    /// could not be read stay `outdated` for the next try.
    async fn text_of(
        self: &Arc<Self>,
        owner: &str,
        mut pieces: Vec<Piece>,
        outdated: &mut Vec<LargeRef>,
    ) -> Result<Option<ResponseText>, Error> {
        self.flushed().await?;
        if let [Piece::Own(text)] = pieces.as_mut_slice() {
            return Ok(Some(ResponseText { text: std::mem::take(text), reservation: None }));
        }
        let larges: Vec<LargeRef> = pieces.iter().filter_map(Piece::large).cloned().collect();
        if larges == *outdated {
            return Err(unreadable());
        }
        *outdated = larges;
        let _turn = self.large_reads.lock().await;
        self.put_together(owner, pieces).await
    }

    async fn put_together(&self, owner: &str, pieces: Vec<Piece>) -> Result<Option<ResponseText>, Error> {
        let bytes = |piece: &Piece| match piece {
            Piece::Own(text) => text.len(),
            Piece::Whole { large, .. } => large.bytes,
        };
        let bytes = AROUND + pieces.iter().map(bytes).sum::<usize>();
        let reservation = Some(self.reserve_response(bytes)?);
        let mut text = String::with_capacity(bytes);
        for piece in pieces {
            match piece {
                Piece::Own(own) => text.push_str(&own),
                Piece::Whole { large, open } => {
                    if !values::append(&mut text, &self.db, &self.config.namespace, owner, &large).await? {
                        return Ok(None);
                    }
                    if open {
                        text.pop();
                    }
                }
            }
        }
        Ok(Some(ResponseText { text, reservation }))
    }
}

/// Room for what stands around an answer, in bytes: a text that grows would be in memory twice.
const AROUND: usize = 64;

impl Piece {
    fn large(&self) -> Option<&LargeRef> {
        match self {
            Self::Whole { large, .. } => Some(large),
            Self::Own(_) => None,
        }
    }
}

impl Entry {
    /// The whole session as clients see it; the completed requests must have been loaded.
    fn pieces(&self) -> Vec<Piece> {
        let s = &self.session;
        let entries =
            self.completed.iter().filter(|_| s.agent_state_large.is_some()).flat_map(CompletedRequests::oldest_first);
        let entries = agent_state::completed_to_json(entries);
        let entries = entries.map(|entries| format!(r#","{}":{}}}"#, agent_state::COMPLETED_REQUESTS, entries.text()));
        let larges = [("metadata", &s.metadata_large, None), ("agentState", &s.agent_state_large, entries)];
        pieces(&self.with_completed_requests(), larges)
    }
}

fn pieces_of_machine(m: &Machine) -> Vec<Piece> {
    pieces(m, [("metadata", &m.metadata_large, None), ("runnerState", &m.runner_state_large, None)])
}

/// A value of ours with large ones among its members, each of which may go on with further members of its own.
fn pieces<T: Serialize>(value: &T, larges: [(&str, &Option<LargeRef>, Option<String>); 2]) -> Vec<Piece> {
    let text = serde_json::to_string(value).unwrap_or_default();
    if larges.iter().all(|(_, large, _)| large.is_none()) {
        return vec![Piece::Own(text)];
    }
    let (mut pieces, mut own) = (Vec::new(), String::new());
    for (name, value) in JsonObject::parse(&text).unwrap_or_default().members() {
        own.push_str(if own.is_empty() && pieces.is_empty() { "{\"" } else { ",\"" });
        own.push_str(name);
        own.push_str("\":");
        match larges.iter().find_map(|(of, large, more)| Some((large.as_ref().filter(|_| *of == name)?.clone(), more)))
        {
            Some((large, more)) => {
                pieces.push(Piece::Own(std::mem::take(&mut own)));
                pieces.push(Piece::Whole { large, open: more.is_some() });
                own.push_str(more.as_deref().unwrap_or_default());
            }
            None => own.push_str(value.get()),
        }
    }
    own.push('}');
    pieces.push(Piece::Own(own));
    pieces
}

/// A value of ours of whose large ones only the length is told, under names that say so.
pub(super) fn without<T: Serialize>(value: &T, larges: [(&str, &Option<LargeRef>); 2]) -> Json {
    let whole = Json::of(value);
    if larges.iter().all(|(_, large)| large.is_none()) {
        return whole;
    }
    let lengths = larges.map(|(name, large)| (name, large.as_ref().map(|large| Json::of(&large.bytes))));
    let mut told = JsonObject::default();
    for (name, value) in JsonObject::parse(whole.text()).unwrap_or_default().members() {
        match lengths.iter().find_map(|(of, length)| length.as_ref().filter(|_| *of == name)) {
            Some(length) => told.push(&format!("{name}Bytes"), length.raw()),
            None => told.push(name, value),
        }
    }
    told.to_json()
}

/// The parts of a value that stands are not all there.
pub(super) fn unreadable() -> Error {
    Error::Unavailable("A value could not be read whole. Try again.".into())
}
