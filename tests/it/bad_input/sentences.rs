//! The text of every error: the text names the field, the limit, and what to do.

use std::collections::BTreeSet;

use crate::support::World;
use serde_json::{Value, json};
use session_gateway_hub::http::error::ErrorResponse;
use session_gateway_hub::hub::core::error::{Error, Kind};
use session_gateway_hub::store::DbError;
use session_gateway_hub::wire::fields::FieldError;

/// Every error of the hub, with its text.
fn errors() -> Vec<(Error, &'static str)> {
    let text = |text: &str| text.to_owned();
    let too_large = Error::TooLarge { what: text("Field `metadata`"), limit: 5, remedy: "Shorten it." };
    vec![
        (Error::NotFound(Kind::Session), "No such session. It may have been deleted: read the list of sessions again."),
        (
            Error::NotFound(Kind::Machine),
            "No such machine. Register it with `POST /cli/machines`, or read the list of machines again.",
        ),
        (
            Error::NotFound(Kind::Subscription),
            "No such subscription. It ends with its connection: use the `subscriptionId` of the current one.",
        ),
        (
            Error::NotFound(Kind::Request),
            "No such pending permission request. It may have been answered or canceled: read the session again.",
        ),
        (Error::NotFound(Kind::Device), "No such device. It may have been revoked: read the list of devices again."),
        (Error::InvalidAnswerToken, "This answer is not valid. Answer the request in the console."),
        (Error::AnswerTokenExpired, "This notification is older than 10 minutes. Answer the request in the console."),
        (
            Error::AnswerTokenUsed,
            "This request was already answered from a notification. The console shows whether it still waits.",
        ),
        (Error::RequestChanged, "The request has changed since the notification. Look at it in the console."),
        (Error::Unsubscribed, "This device no longer gets notifications. Answer the request in the console."),
        (Error::DeviceRevoked, "The token of this device was revoked. Add the device again."),
        (
            Error::NotFound(Kind::HeldMessage),
            "No such held message. It may have been sent or canceled: read the session's messages again.",
        ),
        (
            Error::AttachmentsNotHeld,
            "A message with attachments can't wait until the CLI is back: the files are uploaded to the CLI. Send it without them.",
        ),
        (
            Error::TooManyHeldMessages,
            "20 messages wait until the session's CLI is back, the limit. Cancel one of them.",
        ),
        (
            Error::UnknownCode,
            "This code is not valid. It may be mistyped, used, or older than 5 minutes. Create another one.",
        ),
        (
            Error::NamespaceNotEmpty,
            "The namespace has data. Delete it first, or continue the import that was interrupted.",
        ),
        (Error::PairingDenied, "The request of this device was denied. Request another code."),
        (
            Error::AlreadyDecided,
            "Another decision about this device was made already. Request another code on the device.",
        ),
        (Error::TooManyCodes, "5 codes wait for their devices, the limit. Use one of them, or wait until one expires."),
        (
            Error::TooManyDevices,
            "The namespace has 100 devices, the limit. Revoke one that is no longer used, and try again.",
        ),
        (Error::Forbidden(Kind::Machine), "This machine belongs to another namespace. Use a token of that namespace."),
        (Error::InvalidField(FieldError::new("a", "Field `a` is required.")), "Field `a` is required."),
        (
            Error::InvalidBody(text("It is an array, not an object.")),
            "The request body must be a JSON object. It is an array, not an object.",
        ),
        (
            Error::InvalidPath { field: "path", reason: "it is absolute" },
            "`path` must be a relative path without `..` segments: it is absolute.",
        ),
        (too_large, "Field `metadata` has more than the limit of 5 bytes. Shorten it."),
        (Error::SessionInactive, "The session is not active. Resume it, or wait until its CLI has reconnected."),
        (Error::CliAway, "The session's CLI is not connected. The request can be answered when it is back."),
        (
            Error::CliNotAlive,
            "The session's CLI is connected, but has not reported the session alive. Wait a few seconds and try again, or resume the session.",
        ),
        (
            Error::CliUnreachable(text("No handler registered for abort")),
            "The CLI is not reachable: No handler registered for abort. Check that it is running.",
        ),
        (
            Error::MethodNotRegistered(text("No handler registered for abort, but for stop")),
            "No handler registered for abort, but for stop.",
        ),
        (Error::RpcTimedOut(text("abort")), "The CLI did not respond to abort in time. Try again."),
        (
            Error::CliRefused(text("It is busy.")),
            "The CLI refused: It is busy. Correct the cause on its machine, and try again.",
        ),
        (Error::UntrustedDirectory(text("Trust /w first.")), "Trust /w first."),
        (
            Error::NoMachineOnline,
            "No machine that can resume the session is online. Start the runner on the session's machine.",
        ),
        (
            Error::ResumeUnavailable,
            "The session can't be resumed: its metadata has no session id of the agent. Start a new session.",
        ),
        (
            Error::ResumeFailed,
            "The session was not active 15 seconds after the resume. Check the runner on its machine.",
        ),
        (Error::ModeForbidden("mode"), "This deployment forbids this permission mode. Choose another one."),
        (
            Error::ModeNotApplied(text("it is busy")),
            "The CLI did not apply the mode: it is busy. Choose another mode, or try again.",
        ),
        (
            Error::PathCheckFailed(text("RPC timed out: checkPathExists")),
            "The paths could not be checked: RPC timed out: checkPathExists. Check that the machine's runner is running.",
        ),
        (Error::UploadFailed(text("The disk is full.")), "The upload failed: The disk is full. Try again."),
        (
            Error::UploadStalled,
            "The upload was too slow: less than 64 KiB in 15 seconds. Try again with a faster connection.",
        ),
        (Error::SessionActive, "The session is active. Archive it first, then delete it."),
        (
            Error::CliConnected,
            "The session's CLI is still connected. Archive the session, which ends the CLI, then delete the session.",
        ),
        (
            Error::VersionConflict { expected: 1, found: 3 },
            "The session's metadata has version 3, not 1. Read the session and try again.",
        ),
        (DbError::Unavailable(text("")).into(), "The database is unreachable. Try again in a few seconds."),
        (
            DbError::NoSchema(text("")).into(),
            "A database has no schema yet, or an older one. Run `npm run wrangler -- d1 migrations apply DB --local` (or `--remote` for a deployed hub), also for `DB_2` and so on. `npm run dev` and `npm run deploy` do it for all.",
        ),
        (
            DbError::NotBound(text("DB_2")).into(),
            "The namespace is in the database `DB_2`, which the hub no longer has. The operator must bind it again.",
        ),
        (
            Error::DatabaseRejected,
            "The database rejected the request. Nothing was changed. Try again; the hub's log has the cause.",
        ),
        (
            Error::RenameFailed,
            "The database rejected the new name of the session. Nothing was changed. Try again; the hub's log has the \
             cause.",
        ),
        (Error::Overloaded, "The hub's write queue is full. Try again in a few seconds."),
        (
            Error::TooManyMachines(1_000),
            "The namespace has 1000 machines, the limit, and all of them are online. Stop the runner of one, and try \
             again in a minute.",
        ),
        (
            Error::TooManySessions(20_000),
            "The namespace has 20000 sessions, the limit. Delete some that are no longer needed, and try again.",
        ),
        (
            Error::StorageFull,
            "The storage of the namespace is full. Delete sessions that are no longer needed, and try again.",
        ),
        (
            Error::TooManyMessages { wait_ms: 19_001 },
            "The namespace has sent as many messages in a minute as it may. Try again in 20 seconds.",
        ),
        (
            Error::OptionNotApplied("Effort huge is unknown.".into()),
            "The agent did not apply the option: Effort huge is unknown. Choose another value, or try again.",
        ),
        (
            Error::NotQueued,
            "The message is no longer queued: the agent works on it already, or it was canceled. Send another message.",
        ),
        (
            Error::MemoryInUse,
            "The hub's memory for large requests and responses is in use. Try again in a few seconds.",
        ),
        (
            Error::UploadTooSlow,
            "The upload was slower than 64 KB a second, or than 1000 KB a second while others waited for it, the limits for a \
             CLI that does not accept uploads in chunks. Update the session's CLI, or try again with a faster connection.",
        ),
        (
            Error::TooManyUploads("Sixteen uploads are running."),
            "Sixteen uploads are running. Try again in a few seconds.",
        ),
    ]
}

#[test]
fn every_error_text_says_what_to_do() {
    for (error, sentence) in errors() {
        assert_eq!(ErrorResponse::from(error).message, sentence);
    }
    let source = include_str!("../../../src/hub/core/error.rs");
    let variants = source.lines().filter(|line| line.trim_start().starts_with("#[error(")).count();
    let name = |error: &Error| format!("{error:?}").split(['(', ' ']).next().unwrap_or_default().to_owned();
    let listed: BTreeSet<String> = errors().iter().map(|(error, _)| name(error)).collect();
    assert_eq!(listed.len(), variants, "the table has every error: {listed:?}");
}

#[test]
fn a_response_without_an_error_of_the_hub_says_what_to_do() {
    let rows = [
        (ErrorResponse::unauthorized(), "A valid token is required: `Authorization: Bearer <token>`."),
        (
            ErrorResponse::body_too_large(8_388_608),
            "The request body has more than the limit of 8388608 bytes. Send a smaller one.",
        ),
        (
            ErrorResponse::body_stalled(),
            "The request body was too slow: less than 64 KiB in 15 seconds, or more than 120 seconds for all of it. \
             Try again with a faster connection.",
        ),
        (ErrorResponse::rate_limited(60), "Too many attempts. Try again in 60 seconds."),
    ];
    for (response, sentence) in rows {
        assert_eq!(response.message, sentence);
    }
}

/// Requests that are refused because of a field: method, path, body, error text. `$session` is an id.
fn invalid_requests() -> Vec<(&'static str, &'static str, Value, &'static str)> {
    let long = |length: usize| "x".repeat(length);
    let messages = "/api/sessions/$session/messages";
    let session = "/api/sessions/$session";
    let metadata = |field: &str, value: Value| {
        let mut metadata = json!({"path": "/", "host": "h"});
        metadata[field] = value;
        json!({"tag": "t", "metadata": metadata})
    };
    let state = |state: Value| json!({"tag": "t", "metadata": {"path": "/", "host": "h"}, "agentState": state});
    let keys = json!({"p256dh": "x", "auth": "x"});
    let subscription = |endpoint: &str| json!({"endpoint": endpoint, "keys": keys});
    let none = Value::Null;
    vec![
        ("GET", "/api/nothing", none.clone(), "No route has this path. Check its spelling."),
        (
            "PUT",
            session,
            none.clone(),
            "This path does not support the method. The header `Allow` lists the supported ones.",
        ),
        ("GET", "/api/sessions?archived=all", none.clone(), "Query parameter `archived` must be `include` or `only`."),
        ("GET", "/api/sessions?limit=1001", none.clone(), "Query parameter `limit` must be an integer from 1 to 1000."),
        (
            "GET",
            "/api/sessions?cursor=x",
            none.clone(),
            "Query parameter `cursor` must be the `nextCursor` of an earlier response.",
        ),
        (
            "GET",
            "/api/sessions/$session/messages?limit=201",
            none.clone(),
            "Query parameter `limit` must be an integer from 1 to 200.",
        ),
        (
            "GET",
            "/api/sessions/$session/messages?limit=1&limit=2",
            none.clone(),
            "Query parameter `limit` appears more than once. Send it once.",
        ),
        (
            "GET",
            "/api/sessions/$session/messages?afterSeq=1&beforeSeq=2",
            none.clone(),
            "Query parameters `afterSeq` and `beforeSeq` cannot be combined. Send one of them.",
        ),
        (
            "GET",
            "/api/sessions/$session/git-diff-numstat?staged=Yes",
            none.clone(),
            "Query parameter `staged` must be `true`, `1`, `false` or `0`.",
        ),
        (
            "GET",
            "/api/sessions/$session/files?query=%ff",
            none.clone(),
            "Query parameter `query` must be percent-encoded UTF-8.",
        ),
        (
            "GET",
            "/api/sessions/$session/files?query=%00",
            none.clone(),
            "Query parameter `query` must not contain a NUL character.",
        ),
        ("GET", "/api/sessions/%ff", none.clone(), "Path parameter `id` must be percent-encoded UTF-8."),
        (
            "GET",
            "/api/sessions/$session/file",
            none.clone(),
            "`path` must be a relative path without `..` segments: it is missing.",
        ),
        ("PATCH", session, json!({"name": long(256)}), "Field `name` must have 1 to 255 characters."),
        ("PATCH", session, json!({}), "Field `name` is required."),
        ("PATCH", session, json!({"name": 5}), "Field `name` must be a string, not integer `5`."),
        ("PATCH", session, json!([]), "The request body must be a JSON object. It is an array, not an object."),
        ("POST", messages, json!({}), "Field `text` is required unless `attachments` are sent."),
        ("POST", messages, json!({"text": long(1_048_577)}), "Field `text` must have at most 1048576 bytes."),
        (
            "POST",
            messages,
            json!({"text": "x", "localId": long(256)}),
            "Field `localId` must have at most 255 bytes. Use a UUID.",
        ),
        (
            "POST",
            "/api/sessions/$session/archive",
            json!({"reason": long(1_001)}),
            "Field `reason` must have at most 1000 characters.",
        ),
        (
            "POST",
            "/api/sessions/$session/permission-mode",
            json!({"mode": "yolo"}),
            "Field `mode` must be one of default, acceptEdits, bypassPermissions, plan for this session's agent.",
        ),
        (
            "POST",
            "/api/sessions/$session/permission-mode",
            json!({"mode": "x"}),
            "Field `mode`: unknown permission mode: expected one of default, acceptEdits, bypassPermissions, plan, ask, \
             read-only, safe-yolo, yolo.",
        ),
        (
            "POST",
            "/api/sessions/$session/model",
            json!({"model": "x"}),
            "Field `model`: unknown model mode: expected one of default, model_fast, model_strong.",
        ),
        ("POST", "/api/sessions/$session/permissions/deny", json!({}), "Field `requestId` is required."),
        (
            "POST",
            "/api/sessions/$session/permissions/r/deny",
            json!({"decision": "approved"}),
            "Field `decision` must be `denied` or `abort`.",
        ),
        (
            "POST",
            "/api/sessions/$session/permissions/r/approve",
            json!({"answers": [1]}),
            "Field `answers` must map each question to an array of strings, or to an object with such an array in \
             `answers`.",
        ),
        ("POST", "/api/machines/m/spawn", json!({"directory": ""}), "Field `directory` must not be empty."),
        (
            "POST",
            "/api/machines/m/spawn",
            json!({"directory": "/", "sessionType": "worktree"}),
            "Field `worktreeName` is required when `sessionType` is `worktree`.",
        ),
        (
            "POST",
            "/api/machines/m/spawn",
            json!({"directory": "/", "agent": "x"}),
            "Field `agent`: unknown agent: expected one of alpha, beta, gamma, delta, epsilon.",
        ),
        ("POST", "/api/machines/m/paths/exists", json!({"paths": []}), "Field `paths` must have 1 to 1000 paths."),
        (
            "POST",
            "/api/push/subscribe",
            subscription("http://push.service.com/x"),
            "Field `endpoint` must be an https URL.",
        ),
        (
            "POST",
            "/api/push/subscribe",
            subscription(&format!("https://push.service.com/{}", long(2_048))),
            "Field `endpoint` must have at most 2,048 bytes.",
        ),
        (
            "POST",
            "/api/push/subscribe",
            subscription("https://push.service.com:0/"),
            "Field `endpoint` must have a port from 1 to 65535, or none.",
        ),
        (
            "POST",
            "/api/push/subscribe",
            subscription("https://push.service.com/x"),
            "Field `keys.p256dh` must be base64 of an uncompressed point of P-256, as the browser exports it.",
        ),
        ("POST", "/cli/sessions", json!({"tag": "", "metadata": {}}), "Field `tag` must have 1 to 4096 bytes."),
        (
            "POST",
            "/cli/sessions",
            metadata("path", json!(long(4_097))),
            "Field `metadata.path` must have at most 4096 bytes.",
        ),
        ("POST", "/cli/sessions", metadata("host", json!(5)), "Field `metadata.host` must be a string."),
        (
            "POST",
            "/cli/sessions",
            state(json!({"requests": {"": {}}})),
            "Field `agentState.requests` must have ids of 1 to 255 bytes.",
        ),
        (
            "POST",
            "/cli/sessions",
            state(
                json!({"requests": (0..1_001).map(|id| (id.to_string(), json!({}))).collect::<serde_json::Map<_, _>>()}),
            ),
            "Field `agentState.requests` must have at most 1000 entries.",
        ),
        ("POST", "/cli/machines", json!({"id": long(256), "metadata": {}}), "Field `id` must have 1 to 255 bytes."),
        ("POST", "/cli/machines", json!({"id": "m", "metadata": 5}), "Field `metadata` must be an object."),
    ]
}

#[tokio::test(start_paused = true)]
async fn the_error_of_an_invalid_request_names_the_field_and_its_limit() {
    let world = World::new();
    let session = world.create_session_with("/code", json!({"flavor": "alpha"})).await;
    let _cli = world.live_cli(&session).await;
    world.register_machine("m").await;
    let mut deviations = Vec::new();
    for (method, path, body, sentence) in invalid_requests() {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = world.request(method, &path.replace("$session", &session), body).await;
        let error = if reply.status == 200 { Value::Null } else { reply.json()["error"].clone() };
        if error != sentence {
            deviations.push(format!("{method} {path}: {error}\n  instead of {sentence}"));
        }
    }
    assert!(deviations.is_empty(), "{}", deviations.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn the_error_of_an_event_that_is_too_large_names_the_field_and_its_limit() {
    let world = World::new();
    let session = world.create_session("/code").await;
    let mut cli = world.live_cli(&session).await;
    let update = |field: &str, value: Value| json!({"sid": session, "expectedVersion": 1, field: value});
    let large = || "x".repeat(31_457_280);
    let rows = [
        (
            "update-metadata",
            update("metadata", json!({"path": "/", "host": "h", "other": large()})),
            "Field `metadata` has more than the limit of 31457280 bytes. Shorten it.",
        ),
        (
            "update-state",
            update("agentState", json!({"other": large()})),
            "Field `agentState` has more than the limit of 31457280 bytes. Shorten it.",
        ),
        (
            "update-state",
            update("agentState", json!({"requests": {"r": {"arguments": "x".repeat(8_388_608)}}})),
            "A permission request in `agentState.requests` has more than the limit of 8388608 bytes. Shorten its \
             `arguments`.",
        ),
        (
            "message",
            json!({"sid": session, "message": large()}),
            "Field `message` has more than the limit of 31457280 bytes. Shorten it.",
        ),
    ];
    for (name, payload, sentence) in rows {
        let ack = cli.emit_with_ack(name, &payload).await;
        assert_eq!((&ack["code"], ack.get("error").unwrap_or(&ack["reason"])), (&json!("too-large"), &json!(sentence)));
    }
}
