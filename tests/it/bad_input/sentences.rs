//! The text of every error: the text names the field, the limit, and what to do.

use std::collections::BTreeSet;

use session_gateway_hub::http::error::ErrorResponse;
use session_gateway_hub::hub::core::error::{Error, Kind};
use session_gateway_hub::model::json::FieldError;

use crate::support::prelude::*;

/// Every error of the hub, with its text.
fn errors() -> Vec<(Error, &'static str)> {
    use Error::*;
    use Kind::*;
    let too_large = TooLarge { what: "Field `metadata`".into(), limit: 5, remedy: "Shorten it." };
    vec![
        (NotFound(Session), "No such session. It may have been deleted: read the list of sessions again."),
        (
            NotFound(Machine),
            "No such machine. Register it with `POST /cli/machines`, or read the list of machines again.",
        ),
        (
            NotFound(Subscription),
            "No such subscription. It ends with its connection: use the `subscriptionId` of the current one.",
        ),
        (
            NotFound(Request),
            "No such pending permission request. It may have been answered or canceled: read the session again.",
        ),
        (NotFound(Device), "No such device. It may have been revoked: read the list of devices again."),
        (InvalidAnswerToken, "This answer is not valid. Answer the request in the console."),
        (AnswerTokenExpired, "This notification is older than 10 minutes. Answer the request in the console."),
        (
            AnswerTokenUsed,
            "This request was already answered from a notification. The console shows whether it still waits.",
        ),
        (RequestChanged, "The request has changed since the notification. Look at it in the console."),
        (Unsubscribed, "This device no longer gets notifications. Answer the request in the console."),
        (DeviceRevoked, "The token of this device was revoked. Add the device again."),
        (
            NotFound(HeldMessage),
            "No such held message. It may have been sent or canceled: read the session's messages again.",
        ),
        (
            AttachmentsNotHeld,
            "A message with attachments can't wait until the CLI is back: the files are uploaded to the CLI. Send it without them.",
        ),
        (TooManyHeldMessages, "20 messages wait until the session's CLI is back, the limit. Cancel one of them."),
        (UnknownCode, "This code is not valid. It may be mistyped, used, or older than 5 minutes. Create another one."),
        (NamespaceNotEmpty, "The namespace has data. Delete it first, or continue the import that was interrupted."),
        (PairingDenied, "The request of this device was denied. Request another code."),
        (AlreadyDecided, "Another decision about this device was made already. Request another code on the device."),
        (TooManyCodes, "5 codes wait for their devices, the limit. Use one of them, or wait until one expires."),
        (TooManyDevices, "The namespace has 100 devices, the limit. Revoke one that is no longer used, and try again."),
        (Forbidden(Machine), "This machine belongs to another namespace. Use a token of that namespace."),
        (InvalidField(FieldError::new("a", "Field `a` is required.")), "Field `a` is required."),
        (
            InvalidBody("It is an array, not an object.".into()),
            "The request body must be a JSON object. It is an array, not an object.",
        ),
        (
            InvalidPath { field: "path", reason: "it is absolute" },
            "`path` must be a relative path without `..` segments: it is absolute.",
        ),
        (too_large, "Field `metadata` has more than the limit of 5 bytes. Shorten it."),
        (SessionInactive, "The session is not active. Resume it, or wait until its CLI has reconnected."),
        (CliAway, "The session's CLI is not connected. The request can be answered when it is back."),
        (
            CliNotAlive,
            "The session's CLI is connected, but has not reported the session alive. Wait a few seconds and try again, or resume the session.",
        ),
        (
            CliUnreachable("No handler registered for abort".into()),
            "The CLI is not reachable: No handler registered for abort. Check that it is running.",
        ),
        (
            MethodNotRegistered("No handler registered for abort, but for stop".into()),
            "No handler registered for abort, but for stop.",
        ),
        (RpcTimedOut("abort".into()), "The CLI did not respond to abort in time. Try again."),
        (
            CliRefused("It is busy.".into()),
            "The CLI refused: It is busy. Correct the cause on its machine, and try again.",
        ),
        (UntrustedDirectory("Trust /w first.".into()), "Trust /w first."),
        (
            NoMachineOnline,
            "No machine that can resume the session is online. Start the runner on the session's machine.",
        ),
        (
            ResumeUnavailable,
            "The session can't be resumed: its metadata has no session id of the agent. Start a new session.",
        ),
        (ResumeFailed, "The session was not active 15 seconds after the resume. Check the runner on its machine."),
        (ModeForbidden("mode"), "This deployment forbids this permission mode. Choose another one."),
        (
            ModeNotApplied("it is busy".into()),
            "The CLI did not apply the mode: it is busy. Choose another mode, or try again.",
        ),
        (
            PathCheckFailed("RPC timed out: checkPathExists".into()),
            "The paths could not be checked: RPC timed out: checkPathExists. Check that the machine's runner is running.",
        ),
        (UploadFailed("The disk is full.".into()), "The upload failed: The disk is full. Try again."),
        (UploadStalled, "The upload was too slow: less than 64 KiB in 15 seconds. Try again with a faster connection."),
        (SessionActive, "The session is active. Archive it first, then delete it."),
        (
            CliConnected,
            "The session's CLI is still connected. Archive the session, which ends the CLI, then delete the session.",
        ),
        (
            VersionConflict { expected: 1, found: 3 },
            "The session's metadata has version 3, not 1. Read the session and try again.",
        ),
        (DbError::Unavailable("".into()).into(), "The database is unreachable. Try again in a few seconds."),
        (
            DbError::NoSchema("".into()).into(),
            "A database has no schema yet, or an older one. Run `npm run wrangler -- d1 migrations apply DB --local` (or `--remote` for a deployed hub), also for `DB_2` and so on. `npm run dev` and `npm run deploy` do it for all.",
        ),
        (
            DbError::NotBound("DB_2".into()).into(),
            "The namespace is in the database `DB_2`, which the hub no longer has. The operator must bind it again.",
        ),
        (
            DatabaseRejected,
            "The database rejected the request. Nothing was changed. Try again; the hub's log has the cause.",
        ),
        (
            RenameFailed,
            "The database rejected the new name of the session. Nothing was changed. Try again; the hub's log has the \
             cause.",
        ),
        (Overloaded, "The hub's write queue is full. Try again in a few seconds."),
        (
            TooManyMachines(1_000),
            "The namespace has 1000 machines, the limit, and all of them are online. Stop the runner of one, and try \
             again in a minute.",
        ),
        (
            TooManySessions(20_000),
            "The namespace has 20000 sessions, the limit. Delete some that are no longer needed, and try again.",
        ),
        (
            StorageFull,
            "The storage of the namespace is full. Delete sessions that are no longer needed, and try again.",
        ),
        (
            TooManyMessages { wait_ms: 19_001 },
            "The namespace has sent as many messages in a minute as it may. Try again in 20 seconds.",
        ),
        (
            OptionNotApplied("Effort huge is unknown.".into()),
            "The agent did not apply the option: Effort huge is unknown. Choose another value, or try again.",
        ),
        (
            NotQueued,
            "The message is no longer queued: the agent works on it already, or it was canceled. Send another message.",
        ),
        (MemoryInUse, "The hub's memory for large requests and responses is in use. Try again in a few seconds."),
        (
            UploadTooSlow,
            "The upload was slower than 64 KB a second, or than 1000 KB a second while others waited for it, the limits for a \
             CLI that does not accept uploads in chunks. Update the session's CLI, or try again with a faster connection.",
        ),
        (TooManyUploads("Sixteen uploads are running."), "Sixteen uploads are running. Try again in a few seconds."),
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

/// Requests that are refused because of a field: method, path, body, error text. `$` is the path of a session.
fn invalid_requests() -> Vec<(&'static str, &'static str, Value, &'static str)> {
    let long = |length: usize| "x".repeat(length);
    let get = |path, text| ("GET", path, Value::Null, text);
    let patch = |body, text| ("PATCH", "$", body, text);
    let post = |path, body, text| ("POST", path, body, text);
    let metadata = |field: &str, value: Value| {
        let mut metadata = json!({"path": "/", "host": "h"});
        metadata[field] = value;
        json!({"tag": "t", "metadata": metadata})
    };
    let state = |state: Value| json!({"tag": "t", "metadata": {"path": "/", "host": "h"}, "agentState": state});
    let many: serde_json::Map<_, _> = (0..1_001).map(|id| (id.to_string(), json!({}))).collect();
    let keys = json!({"p256dh": "x", "auth": "x"});
    let subscribe =
        |endpoint: &str, text| post("/api/push/subscribe", json!({"endpoint": endpoint, "keys": keys}), text);
    let create = |body, text| post("/cli/sessions", body, text);
    let spawn = |body, text| post("/api/machines/m/spawn", body, text);
    vec![
        get("/api/nothing", "No route has this path. Check its spelling."),
        (
            "PUT",
            "$",
            Value::Null,
            "This path does not support the method. The header `Allow` lists the supported ones.",
        ),
        get("/api/sessions?archived=all", "Query parameter `archived` must be `include` or `only`."),
        get("/api/sessions?limit=1001", "Query parameter `limit` must be an integer from 1 to 1000."),
        get("/api/sessions?cursor=x", "Query parameter `cursor` must be the `nextCursor` of an earlier response."),
        get("$/messages?limit=201", "Query parameter `limit` must be an integer from 1 to 200."),
        get("$/messages?limit=1&limit=2", "Query parameter `limit` appears more than once. Send it once."),
        get(
            "$/messages?afterSeq=1&beforeSeq=2",
            "Query parameters `afterSeq` and `beforeSeq` cannot be combined. Send one of them.",
        ),
        get("$/git-diff-numstat?staged=Yes", "Query parameter `staged` must be `true`, `1`, `false` or `0`."),
        get("$/files?query=%ff", "Query parameter `query` must be percent-encoded UTF-8."),
        get("$/files?query=%00", "Query parameter `query` must not contain a NUL character."),
        get("/api/sessions/%ff", "Path parameter `id` must be percent-encoded UTF-8."),
        get("$/file", "`path` must be a relative path without `..` segments: it is missing."),
        patch(json!({"name": long(256)}), "Field `name` must have 1 to 255 characters."),
        patch(json!({}), "Field `name` is required."),
        patch(json!({"name": 5}), "Field `name` must be a string, not integer `5`."),
        patch(json!([]), "The request body must be a JSON object. It is an array, not an object."),
        post("$/messages", json!({}), "Field `text` is required unless `attachments` are sent."),
        post("$/messages", json!({"text": long(1_048_577)}), "Field `text` must have at most 1048576 bytes."),
        post(
            "$/messages",
            json!({"text": "x", "localId": long(256)}),
            "Field `localId` must have at most 255 bytes. Use a UUID.",
        ),
        post("$/archive", json!({"reason": long(1_001)}), "Field `reason` must have at most 1000 characters."),
        post(
            "$/permission-mode",
            json!({"mode": "yolo"}),
            "Field `mode` must be one of default, acceptEdits, bypassPermissions, plan for this session's agent.",
        ),
        post(
            "$/permission-mode",
            json!({"mode": "x"}),
            "Field `mode`: unknown permission mode: expected one of default, acceptEdits, bypassPermissions, plan, ask, \
             read-only, safe-yolo, yolo.",
        ),
        post(
            "$/model",
            json!({"model": "x"}),
            "Field `model`: unknown model mode: expected one of default, model_fast, model_strong.",
        ),
        post("$/permissions/deny", json!({}), "Field `requestId` is required."),
        post("$/permissions/r/deny", json!({"decision": "approved"}), "Field `decision` must be `denied` or `abort`."),
        post(
            "$/permissions/r/approve",
            json!({"answers": [1]}),
            "Field `answers` must map each question to an array of strings, or to an object with such an array in \
             `answers`.",
        ),
        spawn(json!({"directory": ""}), "Field `directory` must not be empty."),
        spawn(
            json!({"directory": "/", "sessionType": "worktree"}),
            "Field `worktreeName` is required when `sessionType` is `worktree`.",
        ),
        spawn(
            json!({"directory": "/", "agent": "x"}),
            "Field `agent`: unknown agent: expected one of alpha, beta, gamma, delta, epsilon.",
        ),
        post("/api/machines/m/paths/exists", json!({"paths": []}), "Field `paths` must have 1 to 1000 paths."),
        subscribe("http://push.service.com/x", "Field `endpoint` must be an https URL."),
        subscribe(
            &format!("https://push.service.com/{}", long(2_048)),
            "Field `endpoint` must have at most 2,048 bytes.",
        ),
        subscribe("https://push.service.com:0/", "Field `endpoint` must have a port from 1 to 65535, or none."),
        subscribe(
            "https://push.service.com/x",
            "Field `keys.p256dh` must be base64 of an uncompressed point of P-256, as the browser exports it.",
        ),
        create(json!({"tag": "", "metadata": {}}), "Field `tag` must have 1 to 4096 bytes."),
        create(metadata("path", json!(long(4_097))), "Field `metadata.path` must have at most 4096 bytes."),
        create(metadata("host", json!(5)), "Field `metadata.host` must be a string."),
        create(state(json!({"requests": {"": {}}})), "Field `agentState.requests` must have ids of 1 to 255 bytes."),
        create(state(json!({"requests": many})), "Field `agentState.requests` must have at most 1000 entries."),
        post("/cli/machines", json!({"id": long(256), "metadata": {}}), "Field `id` must have 1 to 255 bytes."),
        post("/cli/machines", json!({"id": "m", "metadata": 5}), "Field `metadata` must be an object."),
    ]
}

#[tokio::test(start_paused = true)]
async fn the_error_of_an_invalid_request_names_the_field_and_its_limit() {
    let world = World::new();
    let (session, _cli) = world.active_session_with("/code", json!({"flavor": "alpha"})).await;
    world.register_machine("m").await;
    let mut deviations = Vec::new();
    for (method, path, body, sentence) in invalid_requests() {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = world.request(method, &path.replace('$', &format!("/api/sessions/{session}")), body).await;
        let error = if reply.status == 200 { Value::Null } else { reply.json()["error"].clone() };
        if error != sentence {
            deviations.push(format!("{method} {path}: {error}\n  instead of {sentence}"));
        }
    }
    assert!(deviations.is_empty(), "{}", deviations.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn the_error_of_an_event_that_is_too_large_names_the_field_and_its_limit() {
    let (_world, session, mut cli) = live_session().await;
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
