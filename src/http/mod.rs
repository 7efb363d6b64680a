//! The HTTP interface, and the only module with status codes.
//!
//! [`edge`] runs in the stateless worker: it authenticates a request, and either responds or selects the object of the
//! namespace. [`router`] runs in the object; every request that reaches it is authenticated. Extractors ([`extract`]) enforce
//! that a session or machine belongs to the namespace.
//! Source: docs/openapi.yaml, PROTOCOL.md "HTTP".

pub mod cli;
pub mod config;
pub mod cors;
pub mod edge;
pub mod error;
pub mod events;
pub mod extract;
pub mod history;
pub mod lifecycle;
pub mod machines;
pub mod messages;
pub mod permissions;
pub mod placement;
pub mod push;
pub mod query;
pub mod response;
pub mod sessions;
pub mod uploads;
pub mod workspace;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::hub::Hub;
use error::ErrorResponse;

/// Returns the routes of the object. `GET .../messages` is here for completeness: the worker responds to it.
pub fn router(hub: Arc<Hub>) -> Router {
    Router::new()
        .route("/api/config", get(config::show))
        .route("/api/sessions", get(sessions::list))
        .route("/api/sessions/{id}", get(sessions::show).patch(sessions::rename).delete(sessions::delete))
        .route("/api/sessions/{id}/messages", get(history::list_for_web).post(messages::send))
        .route("/api/sessions/{id}/abort", post(lifecycle::abort))
        .route("/api/sessions/{id}/switch", post(lifecycle::switch))
        .route("/api/sessions/{id}/resume", post(lifecycle::resume))
        .route("/api/sessions/{id}/archive", post(lifecycle::archive))
        .route("/api/sessions/{id}/permission-mode", post(lifecycle::set_permission_mode))
        .route("/api/sessions/{id}/model", post(lifecycle::set_model))
        .route("/api/sessions/{id}/permissions/{requestId}/approve", post(permissions::approve))
        .route("/api/sessions/{id}/permissions/{requestId}/deny", post(permissions::deny))
        .route("/api/sessions/{id}/permissions/approve", post(permissions::approve_by_body))
        .route("/api/sessions/{id}/permissions/deny", post(permissions::deny_by_body))
        .route("/api/sessions/{id}/git-status", get(workspace::git_status))
        .route("/api/sessions/{id}/git-diff-numstat", get(workspace::git_diff_numstat))
        .route("/api/sessions/{id}/git-diff-file", get(workspace::git_diff_file))
        .route("/api/sessions/{id}/file", get(workspace::read_file))
        .route("/api/sessions/{id}/files", get(workspace::find_files))
        .route("/api/sessions/{id}/directory", get(workspace::list_directory))
        .route("/api/sessions/{id}/slash-commands", get(workspace::list_slash_commands))
        .route("/api/sessions/{id}/skills", get(workspace::list_skills))
        .route("/api/sessions/{id}/upload", post(uploads::upload))
        .route("/api/sessions/{id}/upload/delete", post(uploads::delete))
        .route("/api/machines", get(machines::list))
        .route("/api/machines/{id}", get(machines::show))
        .route("/api/machines/{id}/spawn", post(machines::spawn))
        .route("/api/machines/{id}/paths/exists", post(machines::check_paths))
        .route("/api/visibility", post(events::set_visibility))
        .route("/api/push/vapid-public-key", get(push::show_public_key))
        .route("/api/push/subscribe", post(push::subscribe).delete(push::unsubscribe))
        .route("/api/push/log", get(push::show_log))
        .route("/cli/sessions", post(cli::put_session))
        .route("/cli/sessions/{id}", get(sessions::show))
        .route("/cli/sessions/{id}/messages", get(history::list_for_cli))
        .route("/cli/machines", post(cli::put_machine))
        .route("/cli/machines/{id}", get(machines::show))
        .method_not_allowed_fallback(|| async { ErrorResponse::method_not_allowed() })
        .fallback(|| async { ErrorResponse::no_route() })
        .with_state(hub)
}
