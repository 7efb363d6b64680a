//! The database port over D1.

use futures::future::BoxFuture;
use js_sys::{Array, JsString};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use worker::send::{SendFuture, SendWrapper};

use super::{glue, time};
use crate::store::columns::Columns;
use crate::store::{Database, DbError, JoinedRows, Row, Statement, Value};

/// After a query of more bytes, the event loop runs once: the local runtime then serves other namespaces, too.
const LARGE_QUERY_BYTES: usize = 1_000_000;

pub struct D1(SendWrapper<JsValue>);

impl D1 {
    /// `meter` measures the batches for `Server-Timing`.
    pub fn new(database: worker::D1Database, meter: Option<&glue::Meter>) -> Self {
        let database = JsValue::from(database);
        Self(SendWrapper::new(meter.map_or_else(|| database.clone(), |meter| meter.measure_database(&database))))
    }
}

impl Database for D1 {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        Box::pin(SendFuture::new(async move {
            let list: Array = statements.iter().map(to_js).collect();
            let promise = glue::run_batch(&self.0.0, list).map_err(|e| to_error(&e))?;
            let results = JsFuture::from(promise).await.map_err(|e| to_error(&e))?;
            let results: Vec<Vec<Row>> =
                Array::from(&results).iter().map(|rows| Array::from(&rows).iter().map(from_js).collect()).collect();
            let sent = statements.iter().map(|statement| text_bytes(&statement.params)).sum::<usize>();
            let received = results.iter().flatten().map(|row| text_bytes(row)).sum::<usize>();
            if sent + received > LARGE_QUERY_BYTES {
                time::sleep(0).await;
            }
            Ok(results)
        }))
    }

    fn query_joined<'a>(&'a self, statement: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        Box::pin(SendFuture::new(async move {
            let limit = u32::try_from(limit).unwrap_or(u32::MAX);
            let promise = glue::query_joined(&self.0.0, &to_js(statement), limit).map_err(|e| to_error(&e))?;
            let row = from_js(JsFuture::from(promise).await.map_err(|e| to_error(&e))?);
            let mut c = Columns::new("messages", row);
            let (text, rows, last_seq) = (c.text("body")?, c.number("rows")?, c.optional("seq", Columns::number)?);
            Ok(JoinedRows { text, rows, last_seq })
        }))
    }

    fn size(&self) -> BoxFuture<'_, Result<u64, DbError>> {
        Box::pin(SendFuture::new(async move {
            let size = JsFuture::from(glue::database_size(&self.0.0)).await.map_err(|e| to_error(&e))?;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // At most 10 GB.
            Ok(size.as_f64().unwrap_or_default() as u64)
        }))
    }
}

fn text_bytes(values: &[Value]) -> usize {
    values.iter().map(|value| if let Value::Text(text) = value { text.len() } else { 0 }).sum()
}

fn to_js(statement: &Statement) -> JsValue {
    let param = |value: &Value| match value {
        Value::Null => JsValue::NULL,
        #[allow(clippy::cast_precision_loss)] // D1 knows no larger numbers than JavaScript.
        Value::Integer(number) => JsValue::from_f64(*number as f64),
        Value::Text(text) => JsValue::from_str(text),
    };
    let params: Array = statement.params.iter().map(param).collect();
    Array::of2(&JsValue::from_str(statement.sql), &params).into()
}

fn from_js(row: JsValue) -> Row {
    let columns: Array = row.unchecked_into();
    let value = |column: JsValue| match column.as_f64() {
        #[allow(clippy::cast_possible_truncation)] // Columns hold whole numbers only.
        Some(number) => Value::Integer(number as i64),
        None => column.dyn_into::<JsString>().map_or(Value::Null, |text| Value::Text(text.into())),
    };
    columns.iter().map(value).collect()
}

fn to_error(error: &JsValue) -> DbError {
    let message = error.dyn_ref::<js_sys::Error>().map_or_else(|| format!("{error:?}"), |e| e.message().into());
    DbError::from_message(message)
}
