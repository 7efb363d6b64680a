//! Updates of versioned fields by CLIs (optimistic concurrency).

use crate::hub::core::effect::Reply;
use crate::hub::core::ports::ConnId;
use crate::model::json::Json;
use crate::model::large::VersionedField;
use crate::model::text_parts::TextParts;
use crate::wire::cli::{NAMESPACE, update_ack, update_rejected};
use crate::wire::socketio::{AckId, ack_frame};

/// A CLI's update of a versioned field of a session or machine.
pub struct VersionedUpdate<'a> {
    /// The id of the session or machine.
    pub id: &'a str,
    pub field: VersionedField,
    /// The version that the update is based on.
    pub expected_version: u64,
    pub value: Json,
    /// The socket of the CLI.
    pub from: ConnId,
    pub ack: Option<AckId>,
}

impl VersionedUpdate<'_> {
    /// Returns the reply with the current version and value of the field; `None` if the CLI requested no acknowledgement.
    /// `is_applied`: whether the update was applied. If it was, `version` is the version after the update.
    pub fn reply(&self, is_applied: bool, version: u64, value: TextParts) -> Option<Reply> {
        let ack = self.ack?;
        let frame = |answer: String| ack_frame(NAMESPACE, ack, &[&answer]);
        let failed = update_rejected("The hub could not store the update. Try again.", "unavailable");
        let on_commit = value.insert_into(&frame(update_ack(is_applied, version, self.field.name())), "null");
        Some(Reply { conn: self.from, on_commit, on_failure: frame(failed) })
    }
}
