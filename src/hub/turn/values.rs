//! Setting the values of versioned fields. A value above a limit is *large*.

use crate::hub::Hub;
use crate::hub::core::sessions::before_images::HubQueue;
use crate::model::json::Json;
use crate::model::large::{InlineOrLarge, VersionedField};
use crate::store::values::LargeValue;

impl Hub {
    /// Replaces the value of a field. A large value is queued in the write queue, and only its excerpt is cached.
    pub(in crate::hub) fn set_value(
        &self,
        write_queue: &mut HubQueue,
        (owner, field): (&str, VersionedField),
        version: u64,
        current: &mut InlineOrLarge,
        value: Option<Json>,
    ) {
        self.set_value_within(field.max_inline_bytes(), write_queue, (owner, field), version, current, value);
    }

    /// Replaces the value of a field like [`Hub::set_value`], with another limit: values above `max_inline_bytes` are large.
    pub(in crate::hub) fn set_value_within(
        &self,
        max_inline_bytes: usize,
        write_queue: &mut HubQueue,
        (owner, field): (&str, VersionedField),
        version: u64,
        current: &mut InlineOrLarge,
        value: Option<Json>,
    ) {
        let is_large = value.as_ref().is_some_and(|value| value.text().len() > max_inline_bytes);
        if is_large || current.large().is_some() {
            write_queue.delete_replaced_values(owner);
        }
        *current = match value {
            Some(value) if is_large => {
                let value = LargeValue::new(owner, version, self.new_id(), value);
                let stored = value.to_field(field);
                write_queue.queue_value(value);
                stored
            }
            value => InlineOrLarge::from_inline(value),
        };
    }
}
