//! Values larger than a row ([`crate::model::large`]). The cache holds only an excerpt. The whole value is in the write queue until its
//! commit, and then is read from the database on demand, one value at a time to limit memory.

use futures::future::BoxFuture;
use serde::Serialize;

use crate::hub::core::error::{Error, Kind};
use crate::hub::core::ids::Ids;
use crate::hub::core::sessions::cache::Cache;
use crate::hub::core::sessions::cached_session::{CachedSession, Committed, HubQueue};
use crate::hub::{Hub, LargeValues};
use crate::memory_budget::ResponseText;
use crate::model::agent_state;
use crate::model::json::{Json, JsonObject};
use crate::model::large::{InlineOrLarge, LargeRef, VersionedField};
use crate::model::machine::Machine;
use crate::store::values::{self, LargeValue};

/// A segment of a JSON text before its large values are read.
pub(in crate::hub) struct Segment {
    text: String,
    /// The large value that follows, and whether its closing brace is omitted, because the next segment adds members.
    large: Option<(LargeRef, bool)>,
}

/// Spare capacity for `{"session":…}` around a text, in bytes: without it, the text would be copied.
const WRAPPER_BYTES: usize = 64;

impl HubQueue {
    /// Replaces the value of a field. A large value is queued, and only its excerpt is cached.
    pub(in crate::hub) fn set_value(
        &mut self,
        ids: &Ids,
        (owner, field): (&str, VersionedField),
        version: u64,
        current: &mut InlineOrLarge,
        value: Option<Json>,
    ) {
        self.set_value_within(field.max_inline_bytes(), ids, (owner, field), version, current, value);
    }

    /// Replaces the value of a field like [`set_value`](Self::set_value), with another limit: values above `max_inline_bytes` are large.
    pub(in crate::hub) fn set_value_within(
        &mut self,
        max_inline_bytes: usize,
        ids: &Ids,
        (owner, field): (&str, VersionedField),
        version: u64,
        current: &mut InlineOrLarge,
        value: Option<Json>,
    ) {
        let is_large = value.as_ref().is_some_and(|value| value.text().len() > max_inline_bytes);
        if is_large || current.large().is_some() {
            self.delete_replaced_values(owner);
        }
        *current = match value {
            Some(value) if is_large => {
                let value = LargeValue::new(owner, version, ids.uuid(), value);
                let stored = value.to_field(field);
                self.queue_value(value);
                stored
            }
            value => InlineOrLarge::from_inline(value),
        };
    }
}

impl LargeValues {
    /// Reads a large value from the database. The caller has reserved its memory. `None` if another value has replaced it.
    pub(in crate::hub) async fn read(&self, owner: &str, large: &LargeRef) -> Result<Option<Json>, Error> {
        let mut text = String::with_capacity(large.bytes);
        let found = self.append(&mut text, owner, large).await?;
        Ok(found.then_some(text).and_then(Json::from_string))
    }

    /// Appends a large value to a text with reserved memory. One at a time: its rows are in memory several times. `false` if replaced.
    async fn append(&self, text: &mut String, owner: &str, large: &LargeRef) -> Result<bool, Error> {
        let _guard = self.reads.lock().await;
        Ok(values::append(text, &self.db, &self.config.namespace, owner, large).await?)
    }
}

impl Hub {
    /// Reads a large value from the write queue or the database, after all queued writes are durable. `None` if it was replaced.
    pub(in crate::hub) async fn read_durable_value(
        &self,
        owner: &str,
        large: &LargeRef,
    ) -> Result<Option<Json>, Error> {
        self.flush().await?;
        if let Some(value) = self.turn().write_queue.find_queued_value(large) {
            return Ok(Some(value));
        }
        // Released when this function returns: the caller sends or queues the value at once.
        let _memory = self.memory.reserve(large.bytes).await?;
        self.large_values.read(owner, large).await
    }

    /// Returns a session or machine as JSON text after its changes are durable; while the database is stalled, its committed state.
    /// `split` returns `None` if a part of the state is not in memory. Fails if the creation is not durable.
    pub(in crate::hub) async fn serialize<'a, T>(
        &self,
        (kind, id): (Kind, &str),
        load: impl Fn() -> BoxFuture<'a, Result<(), Error>>,
        current: impl Fn(&Cache) -> Result<&T, Error>,
        committed: impl Fn(&HubQueue) -> Option<&Committed<T>>,
        split: impl Fn(&T) -> Option<Vec<Segment>>,
    ) -> Result<ResponseText, Error> {
        let mut previous_values = Vec::new();
        loop {
            let is_changed = committed(&self.turn().write_queue).is_some();
            if is_changed {
                self.flush_unless_stalled().await?;
                let segments = match committed(&self.turn().write_queue) {
                    Some(state) => split(state.as_ref().ok_or(Error::NotFound(kind))?),
                    None => None,
                };
                if let Some(Ok([Segment { text, large: None }])) = segments.map(<[Segment; 1]>::try_from) {
                    return Ok(ResponseText { text, reservation: None });
                }
            }
            load().await?;
            let (segments, is_changed) = {
                let turn = self.turn();
                (split(current(&turn.cache)?), committed(&turn.write_queue).is_some())
            };
            let Some(segments) = segments else { continue };
            if let Some(text) = self.read_segments(id, segments, is_changed, &mut previous_values).await? {
                return Ok(text);
            }
        }
    }

    /// Reads the large values and concatenates the segments. With `is_changed`, first waits until the queued changes are durable. Returns
    /// `None` if a value was replaced during the read; the caller then tries again. `previous_values`: those of the previous attempt,
    /// which this attempt replaces by its own. Fails if both are equal, because then parts of a value are missing.
    async fn read_segments(
        &self,
        owner: &str,
        mut segments: Vec<Segment>,
        is_changed: bool,
        previous_values: &mut Vec<LargeRef>,
    ) -> Result<Option<ResponseText>, Error> {
        if is_changed {
            self.flush().await?;
        }
        if let [Segment { text, large: None }] = segments.as_mut_slice() {
            return Ok(Some(ResponseText { text: std::mem::take(text), reservation: None }));
        }
        let larges: Vec<LargeRef> =
            segments.iter().filter_map(|segment| Some(segment.large.as_ref()?.0.clone())).collect();
        if larges == *previous_values {
            return Err(incomplete_value());
        }
        let large_bytes = larges.iter().map(|large| large.bytes).sum::<usize>();
        let bytes = WRAPPER_BYTES + large_bytes + segments.iter().map(|segment| segment.text.len()).sum::<usize>();
        *previous_values = larges;
        let reservation = Some(self.memory.reserve(bytes).await?);
        let mut text = String::with_capacity(bytes);
        for segment in segments {
            text.push_str(&segment.text);
            let Some((large, is_open)) = segment.large else { continue };
            if !self.large_values.append(&mut text, owner, &large).await? {
                return Ok(None);
            }
            if is_open {
                text.pop();
            }
        }
        Ok(Some(ResponseText { text, reservation }))
    }
}

/// Splits a session into segments. Adds the completed requests to the end of a large agent state. `None` if they are not loaded.
pub(in crate::hub) fn session_segments(entry: &CachedSession) -> Option<Vec<Segment>> {
    let (s, completed) = (&entry.session, entry.completed.as_ref()?);
    let appended = completed.oldest_first().filter(|_| s.agent_state.large().is_some());
    let completed = agent_state::completed_to_json(appended.map(|(id, entry)| (id, entry.raw())));
    let completed = completed.map(|json| format!(r#","{}":{}}}"#, agent_state::COMPLETED_REQUESTS, json.text()));
    let larges = [("metadata", &s.metadata, None), ("agentState", &s.agent_state, completed)];
    Some(split_at_large(&entry.with_completed_requests(), larges))
}

pub(in crate::hub) fn machine_segments(m: &Machine) -> Option<Vec<Segment>> {
    Some(split_at_large(m, [("metadata", &m.metadata, None), ("runnerState", &m.runner_state, None)]))
}

/// Serializes an object, split at its large `fields`: name, value, and a text that replaces the closing brace of the value.
fn split_at_large<T: Serialize>(object: &T, fields: [(&str, &InlineOrLarge, Option<String>); 2]) -> Vec<Segment> {
    let json = serde_json::to_string(object).unwrap_or_default();
    if fields.iter().all(|(_, field, _)| field.large().is_none()) {
        return vec![Segment { text: json, large: None }];
    }
    let (mut segments, mut text) = (Vec::new(), String::new());
    for (name, value) in JsonObject::parse(&json).unwrap_or_default().members() {
        text.push_str(if text.is_empty() && segments.is_empty() { "{\"" } else { ",\"" });
        text.push_str(name);
        text.push_str("\":");
        let field = fields.iter().find(|(field_name, ..)| *field_name == name);
        match field.and_then(|(_, field, end)| Some((field.large()?.clone(), end.as_deref()))) {
            Some((large, end)) => {
                segments.push(Segment { text: std::mem::take(&mut text), large: Some((large, end.is_some())) });
                text.push_str(end.unwrap_or_default());
            }
            None => text.push_str(value.get()),
        }
    }
    text.push('}');
    segments.push(Segment { text, large: None });
    segments
}

/// Serializes an object with the lengths of large members in their place: `metadataBytes` for `metadata`.
pub(in crate::hub) fn without_large<T: Serialize>(object: &T, fields: [(&str, &InlineOrLarge); 2]) -> Json {
    let json = Json::of(object);
    if fields.iter().all(|(_, field)| field.large().is_none()) {
        return json;
    }
    let lengths = fields.map(|(name, field)| (name, field.large().map(|large| Json::of(&large.bytes))));
    let mut shortened = JsonObject::default();
    for (name, value) in JsonObject::parse(json.text()).unwrap_or_default().members() {
        match lengths.iter().find_map(|(large_name, length)| length.as_ref().filter(|_| *large_name == name)) {
            Some(length) => shortened.push(&format!("{name}Bytes"), length.raw()),
            None => shortened.push(name, value),
        }
    }
    shortened.to_json()
}

/// Returns the error for a value with missing parts that was not replaced.
pub(in crate::hub) fn incomplete_value() -> Error {
    Error::Unavailable("A large value could not be read completely. Try again.".into())
}
