//! Statements that write many rows. The rows are one parameter, a JSON array, which SQL reads with `json_each`: D1 allows only 100
//! parameters, and JavaScript gets all rows at once. An array that becomes too large for D1 is split into several statements.

use std::collections::BTreeSet;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Statement, Value};
use crate::model::namespace::Namespace;

/// A JSON array above this size, in bytes, gets no further row: with at most twice [`LARGE_ROW_BYTES`] more, it is below D1's 2 MB.
const FULL_ARRAY_BYTES: usize = 1_000_000;
/// A row with texts above this size, in bytes, gets a statement of its own: escaping can double a text in a JSON array.
const LARGE_ROW_BYTES: usize = 250_000;

/// Collects bulk statements. Their parameters are:
/// - `?1`: the rows as a JSON array
/// - `?2`: the namespace
/// - from `?3` on: the texts of a large row, NULL for other rows
pub struct BulkStatements {
    namespace: Value,
    pub statements: Vec<Statement>,
}

impl BulkStatements {
    pub fn new(namespace: &Namespace) -> Self {
        Self { namespace: namespace.into(), statements: Vec::new() }
    }

    /// Adds as few statements for the rows as the limits allow.
    pub fn add_rows<'a>(&mut self, sql: &'static str, rows: impl Iterator<Item = BulkRow<'a>>) {
        let mut json = String::new();
        let mut no_texts = Vec::new();
        for mut row in rows {
            no_texts = vec![Value::Null; row.texts.len()];
            if row.texts.iter().map(|(_, text)| text.map_or(0, str::len)).sum::<usize>() > LARGE_ROW_BYTES {
                // A text that is a parameter must not also be in the JSON row.
                let texts = row.texts.drain(..).map(|(_, text)| text.into()).collect();
                self.finish_statement(sql, &mut json, no_texts.clone());
                append_row(&mut json, &row);
                self.finish_statement(sql, &mut json, texts);
                continue;
            }
            append_row(&mut json, &row);
            if json.len() > FULL_ARRAY_BYTES {
                self.finish_statement(sql, &mut json, no_texts.clone());
            }
        }
        self.finish_statement(sql, &mut json, no_texts);
    }

    /// Adds statements whose rows are ids, or pairs of ids.
    pub fn add_ids<R: Serialize + Ord>(&mut self, sql: &'static str, ids: impl Iterator<Item = R>) {
        let mut distinct = BTreeSet::new();
        // Not `collect`, which would add the code of a sort for this type to the wasm module.
        distinct.extend(ids);
        let mut json = String::new();
        for id in distinct {
            append_row(&mut json, &id);
            if json.len() > FULL_ARRAY_BYTES {
                self.finish_statement(sql, &mut json, Vec::new());
            }
        }
        self.finish_statement(sql, &mut json, Vec::new());
    }

    /// Adds a statement for the rows in `json`, if there are any, and clears `json`.
    fn finish_statement(&mut self, sql: &'static str, json: &mut String, texts: Vec<Value>) {
        if json.is_empty() {
            return;
        }
        json.push(']');
        let mut params = vec![Value::Text(std::mem::take(json)), self.namespace.clone()];
        params.extend(texts);
        self.statements.push(Statement { sql, params });
    }
}

/// A row of a bulk statement. In the JSON array, it is an object.
pub struct BulkRow<'a> {
    pub columns: Vec<(&'static str, Value)>,
    /// The columns that can be large, in the order of their parameters.
    pub texts: Vec<(&'static str, Option<&'a str>)>,
}

impl Serialize for BulkRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.columns.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        self.texts.iter().try_for_each(|(name, text)| map.serialize_entry(name, text))?;
        map.end()
    }
}

fn append_row<R: Serialize>(json: &mut String, row: &R) {
    json.push(if json.is_empty() { '[' } else { ',' });
    // Rows consist of texts, numbers and booleans, which always serialize.
    json.push_str(&serde_json::to_string(row).unwrap_or_default());
}
