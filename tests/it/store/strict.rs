//! A row in which a column is missing or has the wrong type is an error that names the column.

use crate::support::field_faults::{Field, FieldKind};
use crate::support::prelude::*;
use crate::support::settings::settings;
use crate::support::store::{
    find_by_local_ids, find_machine_owner, load_by_tag, load_machines, load_summaries, read_memory, team_namespace,
};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use session_gateway_hub::model::large::LargeRef;
use session_gateway_hub::store::history::{PageRange, read_page};
use session_gateway_hub::store::{
    JoinedRows, Row, Statement, Value, completed_requests, events, messages, push, query, secrets, sessions, summaries,
    values,
};

/// A database that returns the same row for the first statement of every batch. For the second statement, which checks who
/// owns an id, it returns 1.
struct OneRow(Row);

impl Database for OneRow {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        let results = [vec![self.0.clone()], vec![vec![Value::Integer(1)]]];
        ready(Ok(results.into_iter().take(statements.len()).collect())).boxed()
    }

    fn query_joined<'a>(&'a self, _: &'a Statement, _: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        ready(Ok(JoinedRows::default())).boxed()
    }
}

/// A value of this type of a column.
fn valid(column_type: &str) -> Value {
    match column_type.trim_end_matches('?') {
        "Text" => "text".into(),
        "Number" | "Flag" => Value::Integer(1),
        "Json" => "{}".into(),
        "Mode" => "local".into(),
        "Parts" => "1/2/3/id".into(),
        "Texts" => "[]".into(),
        other => panic!("unknown type {other}"),
    }
}

/// Values that a column of this type must not have. A type that ends with `?` may be null.
fn invalid(column_type: &str) -> Vec<Value> {
    let mut values = match column_type.trim_end_matches('?') {
        "Text" => vec![Value::Integer(1)],
        "Number" => vec![Value::Integer(-1), "1".into()],
        "Flag" => vec![Value::Integer(2), "1".into()],
        "Json" => vec![Value::Integer(1), "{".into()],
        "Mode" => vec![Value::Integer(1), "other".into()],
        "Parts" => vec![Value::Integer(1), "1/2/x/id".into()],
        "Texts" => vec![Value::Integer(1), "{}".into(), "[1]".into()],
        other => panic!("unknown type {other}"),
    };
    values.extend((!column_type.ends_with('?')).then_some(Value::Null));
    values
}

/// Reads a valid row. Then, for each column, reads rows in which the column is invalid or missing, and checks the error.
/// `columns`: the name and the type of each column.
async fn check(table: &str, columns: &str, read: impl AsyncFn(&OneRow) -> Result<(), DbError>) {
    let columns: Vec<_> = columns.split(' ').map(|column| column.split_once(':').unwrap()).collect();
    let valid: Row = columns.iter().map(|(_, column_type)| valid(column_type)).collect();
    assert_eq!(read(&OneRow(valid.clone())).await, Ok(()), "{table}");
    for (index, (name, column_type)) in columns.iter().enumerate() {
        let invalid = invalid(column_type).into_iter().map(|value| {
            let mut row = valid.clone();
            row[index] = value;
            row
        });
        for row in invalid.chain([valid[..index].to_vec()]) {
            let error = read(&OneRow(row.clone())).await.unwrap_err();
            assert!(
                matches!(error, DbError::UnexpectedColumn { table: error_table, column, .. } if (error_table, column) == (table, *name)),
                "{table}.{name}: {row:?}: {error}"
            );
        }
    }
}

/// The columns that a session and its summary have in common.
fn listed_columns() -> String {
    let column_type = |field: &Field| if matches!(field.kind, FieldKind::Flag) { "Flag" } else { "Text?" };
    let settings: String = settings().map(|field| format!(" {}:{}", field.name, column_type(field))).collect();
    "updated_at:Number last_message_at:Number? held_messages_count:Number active_at:Number thinking_at:Number \
        active:Flag thinking:Flag mode:Mode? permission_mode:Text? model_mode:Text? ended_at:Number? \
        unseen_since:Number?"
        .to_owned()
        + &settings
}

#[tokio::test]
async fn invalid_columns_of_sessions_are_errors() {
    let columns = "id:Text tag:Text created_at:Number metadata:Json? metadata_version:Number metadata_parts:Parts? \
        agent_state:Json? agent_state_version:Number agent_state_parts:Parts? todos:Json? request_times:Json? \
        seq:Number ";
    let columns = columns.to_owned() + &listed_columns();
    check("sessions", &columns, async |db| sessions::load_by_id(db, &team_namespace(), "s").await.map(drop)).await;
    check("sessions", &columns, async |db| load_by_tag(db, &team_namespace(), "t").await.map(drop)).await;
}

#[tokio::test]
async fn invalid_columns_of_summaries_are_errors() {
    let columns = "tag:Text id:Text created_at:Number texts:Texts? total:Number? completed:Number pending:Number \
        found:Number ";
    let columns = columns.to_owned() + &listed_columns();
    check("sessions", &columns, async |db| load_summaries(db, &team_namespace()).await.map(drop)).await;
    check("sessions", "count:Number tag_ends:Text", async |db| {
        summaries::read_tags(query(db, summaries::count_without_tag(&team_namespace(), "t")).await?).map(drop)
    })
    .await;
}

#[tokio::test]
async fn invalid_columns_of_messages_are_errors() {
    let columns = "local_id:Text id:Text seq:Number created_at:Number";
    check("messages", columns, async |db| {
        messages::read_local_ids(query(db, messages::select_local_ids(&team_namespace(), "s", 1)).await?).map(drop)
    })
    .await;
    let columns = "position:Number id:Text seq:Number created_at:Number";
    let pairs = [("s".to_owned(), "l".to_owned())];
    check("messages", columns, async |db| find_by_local_ids(db, &pairs).await.map(drop)).await;
    let columns = "seq:Number content:Text";
    check("messages", columns, async |db| {
        messages::read_todo_candidates(query(db, messages::select_todo_candidates(&team_namespace(), "s", 1, 9)).await?)
            .map(drop)
    })
    .await;
}

#[tokio::test]
async fn invalid_columns_of_message_pages_are_errors() {
    let columns = "seq:Number parts:Number bytes:Number id:Text created_at:Number found:Number";
    let page = async |db: &OneRow| {
        let page = read_page(db, &read_memory(), (&team_namespace(), "s"), PageRange::After(0), 5, None).await;
        // The fake database returns the same row for the parts of the message.
        match page {
            Err(DbError::UnexpectedColumn { table: "message_parts", column: "content", .. }) => Ok(()),
            other => other.map(drop),
        }
    };
    check("messages", columns, page).await;
}

#[tokio::test]
async fn invalid_columns_of_parts_of_values_are_errors() {
    let large = LargeRef { version: 1, parts: 1, bytes: 4, id: "id".into() };
    let append = async |db: &OneRow| {
        let mut text = String::new();
        values::append(&mut text, db, &team_namespace(), "s", &large)
            .await
            .map(|complete| assert!(complete && text == "text"))
    };
    check("value_parts", "content:Text", append).await;
}

#[tokio::test]
async fn invalid_columns_of_machines_are_errors() {
    let columns = "id:Text seq:Number created_at:Number updated_at:Number active:Flag active_at:Number metadata:Json? \
        metadata_version:Number metadata_parts:Parts? runner_state:Json? runner_state_version:Number \
        runner_state_parts:Parts?";
    check("machines", columns, async |db| load_machines(db, &team_namespace()).await.map(drop)).await;
    check("machines", "owned:Flag", async |db| find_machine_owner(db, &team_namespace(), "m").await.map(drop)).await;
}

#[tokio::test]
async fn invalid_columns_of_events_are_errors() {
    let columns = "last:Number floor:Number events:Number bytes:Number body:Text";
    check("events", columns, async |db| events::load(db, &team_namespace(), 0, None).await.map(drop)).await;
    let columns = "max(last):Number?";
    check("events", columns, async |db| events::load_last_number(db, &team_namespace()).await.map(drop)).await;
}

#[tokio::test]
async fn invalid_columns_of_completed_requests_are_errors() {
    let columns = "request_id:Text completed_at:Number value:Json total:Number";
    let load = async |db: &OneRow| {
        completed_requests::read(query(db, completed_requests::select(&team_namespace(), "s")).await?).map(drop)
    };
    check("completed_requests", columns, load).await;
}

#[tokio::test]
async fn invalid_columns_of_push_subscriptions_and_secrets_are_errors() {
    let columns = "endpoint:Text p256dh:Text auth:Text hub:Text? device:Text? token_device:Text? notify:Text? \
        secret:Text?";
    check("push_subscriptions", columns, async |db| push::load_all(db, &team_namespace()).await.map(drop)).await;
    let columns = "value:Text";
    check("secrets", columns, async |db| secrets::get_or_insert(db, "name", "new").await.map(drop)).await;
}

#[tokio::test(start_paused = true)]
async fn the_error_response_names_the_invalid_column() {
    let (world, session) = idle_session().await;
    world.hibernate_and_wake().await;
    world.db.execute("UPDATE sessions SET created_at = 'yesterday'");
    let error = world.get(&format!("/api/sessions/{session}")).await.assert_error(503, "hub_unavailable");
    let text = error["error"].as_str().unwrap();
    assert!(text.contains("column `created_at` of table `sessions` must be a non-negative integer"), "{text}");
    world.get("/api/sessions").await.assert_error(503, "hub_unavailable");
}
