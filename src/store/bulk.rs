//! Bulk statements: any number of rows as one JSON parameter, which SQL reads with `json_each`. So a statement stays
//! below D1's limit of 100 parameters, and its rows are copied into JavaScript at once. A large text is a parameter of
//! its own.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Statement, Value};
use crate::model::namespace::Namespace;

/// Rows are added to a parameter until it is larger than this, in bytes: half of what D1 allows, so that one more row
/// fits.
const MAX_PARAM_BYTES: usize = 1_000_000;

/// A row with more text than this has a statement of its own, in bytes: JSON escapes can double the size of a text.
const LARGE_ROW_BYTES: usize = 250_000;

/// Builds bulk statements. Their parameters are `?1`: the rows as a JSON array, `?2`: the namespace, and from `?3` on
/// the large texts of a row with a statement of its own, NULL for other rows.
pub struct BulkWriter {
    namespace: Value,
    /// The statements in the order of their execution.
    pub statements: Vec<Statement>,
}

impl BulkWriter {
    pub fn new(namespace: &Namespace) -> Self {
        Self { namespace: namespace.as_ref().into(), statements: Vec::new() }
    }

    /// Adds as few statements for the rows as the limits allow. `large_texts` returns the columns that can be large, in
    /// the order of their parameters.
    pub fn write<'a, R: Serialize>(
        &mut self,
        sql: &'static str,
        rows: impl Iterator<Item = R>,
        large_texts: impl Fn(&mut R) -> Vec<&mut Option<&'a str>>,
    ) {
        let mut array = String::new();
        let mut large_columns = 0;
        for mut row in rows {
            let texts = large_texts(&mut row);
            large_columns = texts.len();
            if texts.iter().map(|text| text.map_or(0, str::len)).sum::<usize>() > LARGE_ROW_BYTES {
                let texts = texts.into_iter().map(|text| text.take().map_or(Value::Null, Value::from)).collect();
                self.flush(sql, &mut array, vec![Value::Null; large_columns]);
                push(&mut array, &row);
                self.flush(sql, &mut array, texts);
                continue;
            }
            push(&mut array, &row);
            if array.len() > MAX_PARAM_BYTES {
                self.flush(sql, &mut array, vec![Value::Null; large_columns]);
            }
        }
        self.flush(sql, &mut array, vec![Value::Null; large_columns]);
    }

    /// Adds statements whose rows are ids.
    pub fn write_ids<'a>(&mut self, sql: &'static str, ids: impl Iterator<Item = &'a str>) {
        let mut distinct = BTreeSet::new();
        // Not `collect`, which would add the code of a sort for this type to the wasm module.
        distinct.extend(ids);
        self.write(sql, distinct.into_iter(), |_| Vec::new());
    }

    fn flush(&mut self, sql: &'static str, array: &mut String, texts: Vec<Value>) {
        if array.is_empty() {
            return;
        }
        array.push(']');
        let mut params = vec![Value::Text(std::mem::take(array)), self.namespace.clone()];
        params.extend(texts);
        self.statements.push(Statement { sql, params });
    }
}

fn push<R: Serialize>(array: &mut String, row: &R) {
    array.push(if array.is_empty() { '[' } else { ',' });
    // Rows consist of texts, numbers and booleans, which always serialize.
    array.push_str(&serde_json::to_string(row).unwrap_or_default());
}
