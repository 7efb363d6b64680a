//! The settings of a session, from the row of `PATCH /api/sessions/{id}` in the table of routes.

use serde_json::Map;

use super::field_faults::{Field, FieldKind};
use super::prelude::*;
use super::routes::object_routes;

/// The settings: the fields of the route that are not of the name.
pub fn settings() -> impl Iterator<Item = &'static Field> {
    let change = object_routes().find(|route| (route.method, route.path) == ("PATCH", "/api/sessions/{id}")).unwrap();
    change.body.iter().filter(|field| !["name", "expectedVersion"].contains(&field.name))
}

/// A value of each setting that differs from its default.
pub fn set_values() -> Map<String, Value> {
    settings().map(|field| (field.name.to_owned(), serde_json::from_str(field.valid).unwrap())).collect()
}

/// The value of each setting that clears the setting.
pub fn cleared_values() -> Map<String, Value> {
    let cleared = |field: &Field| if matches!(field.kind, FieldKind::Flag) { json!(false) } else { Value::Null };
    settings().map(|field| (field.name.to_owned(), cleared(field))).collect()
}

/// The settings that an object has.
pub fn settings_of(data: &Value) -> Map<String, Value> {
    let has = |field: &Field| Some((field.name.to_owned(), data.get(field.name)?.clone()));
    settings().filter_map(has).collect()
}

impl World {
    pub async fn change_session(&self, session: &str, fields: &Map<String, Value>) {
        self.request("PATCH", &format!("/api/sessions/{session}"), Value::from(fields.clone()).to_string()).await.ok();
    }
}
