//! Values of versioned fields, which are large above a limit.

use crate::hub::Hub;
use crate::hub::base::state::before_images::WriteQueue;
use crate::model::json::Json;
use crate::model::large::{Field, LargeRef};
use crate::store::values::LargeValue;

impl Hub {
    /// Replaces the value of a field. A large value is queued in the write queue, and only its excerpt is cached.
    pub(in crate::hub) fn set_value(
        &self,
        write_queue: &mut WriteQueue,
        (owner, field): (&str, Field),
        version: u64,
        current: (&mut Option<Json>, &mut Option<LargeRef>),
        value: Option<Json>,
    ) {
        self.set_value_within(field.max_inline_bytes(), write_queue, (owner, field), version, current, value);
    }

    /// Replaces the value of a field like [`Hub::set_value`]. Values above `max_inline_bytes` are large.
    pub(in crate::hub) fn set_value_within(
        &self,
        max_inline_bytes: usize,
        write_queue: &mut WriteQueue,
        (owner, field): (&str, Field),
        version: u64,
        (current, large): (&mut Option<Json>, &mut Option<LargeRef>),
        value: Option<Json>,
    ) {
        let is_large = value.as_ref().is_some_and(|value| value.text().len() > max_inline_bytes);
        if is_large || large.is_some() {
            write_queue.delete_replaced_values(owner);
        }
        (*current, *large) = match value {
            Some(value) if is_large => {
                let value = LargeValue::new(owner, version, self.new_id(), value);
                let cached = (Some(field.excerpt(&value.value)), Some(value.large.clone()));
                write_queue.queue_value(value);
                cached
            }
            value => (value, None),
        };
    }
}
