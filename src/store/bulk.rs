//! Statements that write many rows. The rows are one parameter: a JSON array, which SQL reads with `json_each`. This
//! avoids D1's limit of 100 parameters and copies all rows into JavaScript at once. An array that becomes too large for
//! D1 is split into several statements.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Statement, Value};
use crate::model::namespace::Namespace;

/// A JSON array above this size, in bytes, gets no further row. Its last row added at most twice [`LARGE_ROW_BYTES`], so the
/// array is smaller than D1's limit of 2 MB.
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
        Self { namespace: namespace.as_ref().into(), statements: Vec::new() }
    }

    /// Adds as few statements for the rows as the limits allow. `text_columns` returns the columns that can be large,
    /// in the order of their parameters.
    pub fn add_rows<'a, R: Serialize>(
        &mut self,
        sql: &'static str,
        rows: impl Iterator<Item = R>,
        text_columns: impl Fn(&mut R) -> Vec<&mut Option<&'a str>>,
    ) {
        let mut json = String::new();
        let mut no_texts = Vec::new();
        for mut row in rows {
            let columns = text_columns(&mut row);
            no_texts = vec![Value::Null; columns.len()];
            if columns.iter().map(|text| text.map_or(0, str::len)).sum::<usize>() > LARGE_ROW_BYTES {
                // A text that is a parameter must not also be in the JSON row.
                let texts = columns.into_iter().map(|text| text.take().map_or(Value::Null, Value::from)).collect();
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

    /// Adds statements whose rows are ids.
    pub fn add_ids<'a>(&mut self, sql: &'static str, ids: impl Iterator<Item = &'a str>) {
        let mut distinct = BTreeSet::new();
        // Not `collect`, which would add the code of a sort for this type to the wasm module.
        distinct.extend(ids);
        self.add_rows(sql, distinct.into_iter(), |_| Vec::new());
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

fn append_row<R: Serialize>(json: &mut String, row: &R) {
    json.push(if json.is_empty() { '[' } else { ',' });
    // Rows consist of texts, numbers and booleans, which always serialize.
    json.push_str(&serde_json::to_string(row).unwrap_or_default());
}
