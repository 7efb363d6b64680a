//! The HTTP interface: the only module that knows status codes.
//!
//! [`edge`] runs in the stateless worker: it authenticates a request, and either responds or selects the object of the
//! namespace. [`respond`] runs in the object, and gets authenticated requests only. Handlers get sessions and machines from
//! [`extract`], which enforces that they belong to the namespace.
//! Source: docs/openapi.yaml, PROTOCOL.md "Basics".

pub mod authentication;
pub mod cors;
pub mod deployment;
pub mod devices;
pub mod edge;
pub mod error;
pub mod events;
pub mod extract;
pub mod history;
pub mod machines;
pub mod messages;
pub mod namespaces;
pub mod permissions;
pub mod push;
pub mod response;
pub mod sessions;
pub mod workspace;

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Method;

use crate::hub::Hub;
use error::ErrorResponse;
use extract::{RoutedRequest, decode_params, refuse_unconfirmed};
use response::{Reply, Response, to_response};

struct Route {
    method: Method,
    /// Parameters are in braces; each is a whole segment.
    path: &'static str,
    handle: fn(RoutedRequest) -> BoxFuture<'static, Reply>,
}

macro_rules! routes {
    ($($method:ident $path:literal => $handler:path,)*) => {
        &[$(Route { method: Method::$method, path: $path, handle: |request| Box::pin($handler(request)) }),*]
    };
}

/// The prefix of the routes of the operator, the only routes that a closed namespace serves.
const NAMESPACES_PREFIX: &str = "/api/namespaces/";

/// The routes of the object. The worker answers `GET .../messages` itself, and forwards it only when the database is slow.
const ROUTES: &[Route] = routes! {
    GET "/api/config" => deployment::show_config,
    GET "/api/status" => deployment::show_status,
    GET "/api/sessions" => sessions::list,
    GET "/api/inbox" => sessions::list_inbox,
    GET "/api/sessions/{id}" => sessions::show,
    PATCH "/api/sessions/{id}" => sessions::change,
    DELETE "/api/sessions/{id}" => sessions::delete,
    GET "/api/sessions/{id}/messages" => history::list,
    POST "/api/sessions/{id}/messages" => messages::send,
    GET "/api/sessions/{id}/held-messages" => messages::list_held,
    DELETE "/api/sessions/{id}/held-messages/{localId}" => messages::cancel_held,
    POST "/api/sessions/{id}/seen" => sessions::mark_seen,
    POST "/api/sessions/{id}/abort" => sessions::abort,
    POST "/api/sessions/{id}/switch" => sessions::switch,
    POST "/api/sessions/{id}/resume" => sessions::resume,
    POST "/api/sessions/{id}/archive" => sessions::archive,
    POST "/api/sessions/{id}/permission-mode" => sessions::set_permission_mode,
    POST "/api/sessions/{id}/model" => sessions::set_model,
    POST "/api/sessions/{id}/options" => sessions::set_option,
    POST "/api/sessions/{id}/fork" => sessions::fork,
    POST "/api/sessions/{id}/queue" => messages::reorder_queue,
    PATCH "/api/sessions/{id}/queue/{seq}" => messages::edit_queued,
    DELETE "/api/sessions/{id}/queue/{seq}" => messages::cancel_queued,
    POST "/api/sessions/{id}/queue/{seq}/send" => messages::send_queued,
    POST "/api/sessions/{id}/permissions/{requestId}/approve" => permissions::approve,
    POST "/api/sessions/{id}/permissions/{requestId}/deny" => permissions::deny,
    POST "/api/sessions/{id}/permissions/approve" => permissions::approve,
    POST "/api/sessions/{id}/permissions/deny" => permissions::deny,
    GET "/api/sessions/{id}/permissions/{requestId}/content" => permissions::forward_to_cli,
    DELETE "/api/sessions/{id}/permissions/rules/{ruleId}" => permissions::forward_to_cli,
    GET "/api/sessions/{id}/git-status" => workspace::git_status,
    GET "/api/sessions/{id}/git-diff-numstat" => workspace::git_diff_numstat,
    GET "/api/sessions/{id}/git-diff-file" => workspace::git_diff_file,
    GET "/api/sessions/{id}/file" => workspace::read_file,
    GET "/api/sessions/{id}/files" => workspace::find_files,
    GET "/api/sessions/{id}/directory" => workspace::list_directory,
    GET "/api/sessions/{id}/slash-commands" => workspace::list_slash_commands,
    GET "/api/sessions/{id}/skills" => workspace::list_skills,
    POST "/api/sessions/{id}/upload" => workspace::upload,
    POST "/api/sessions/{id}/upload/delete" => workspace::delete_upload,
    GET "/api/machines" => machines::list,
    GET "/api/machines/{id}" => machines::show,
    POST "/api/machines/{id}/spawn" => machines::spawn,
    POST "/api/machines/{id}/paths/exists" => machines::check_paths,
    GET "/api/machines/{id}/directory" => machines::list_directory,
    GET "/api/machines/{id}/branches" => machines::list_branches,
    GET "/api/machines/{id}/agent-sessions" => machines::list_agent_sessions,
    POST "/api/machines/{id}/agent-sessions" => machines::import_agent_session,
    POST "/api/visibility" => events::set_visibility,
    GET "/api/push/vapid-public-key" => push::show_public_key,
    POST "/api/push/subscribe" => push::subscribe,
    DELETE "/api/push/subscribe" => push::unsubscribe,
    GET "/api/push/log" => push::show_log,
    POST "/api/answers" => permissions::answer_by_token,
    GET "/api/devices" => devices::list,
    POST "/api/devices/codes" => devices::create_code,
    GET "/api/devices/codes/{deviceId}" => devices::show_code_user,
    GET "/api/devices/requests/{code}" => devices::show_request,
    POST "/api/devices/requests/{code}" => devices::decide_request,
    PATCH "/api/devices/{id}" => devices::rename,
    DELETE "/api/devices/{id}" => devices::revoke,
    GET "/api/namespaces/generation" => namespaces::show_generation,
    POST "/api/namespaces/revoke" => namespaces::revoke,
    GET "/api/namespaces/export" => namespaces::export,
    POST "/api/namespaces/import" => namespaces::import,
    POST "/api/namespaces/delete" => namespaces::delete,
    POST "/api/namespaces/move" => namespaces::relocate,
    POST "/cli/sessions" => sessions::get_or_create,
    GET "/cli/sessions/{id}" => sessions::show,
    GET "/cli/sessions/{id}/messages" => history::list,
    POST "/cli/machines" => machines::register,
    GET "/cli/machines/{id}" => machines::show,
};

/// The routes that only the worker handles.
const WORKER_ROUTES: [&str; 9] = [
    "/health",
    "/metrics",
    "/api/auth",
    "/api/events",
    "/api/devices/requests",
    "/api/devices/requests/token",
    "/api/namespaces/databases",
    "/socket.io",
    "/socket.io/",
];

/// Returns the paths of all routes in lines, with parameters in braces.
pub fn route_patterns() -> String {
    ROUTES.iter().map(|route| route.path).chain(WORKER_ROUTES).collect::<Vec<_>>().join("\n")
}

/// Handles a request, and reserves memory for a large response.
pub async fn respond(hub: &Arc<Hub>, request: http::Request<Bytes>) -> Response {
    let is_head = request.method() == Method::HEAD;
    let reply = match route(hub, request) {
        Ok(reply) => reply.await.and_then(|text| text.with_reservation(&hub.memory)),
        Err(error) => Err(error),
    };
    let response = to_response(reply);
    if is_head { response.map(|_| Bytes::new()) } else { response }
}

/// Calls the handler of a request. A handler of GET also handles HEAD.
fn route(hub: &Arc<Hub>, request: http::Request<Bytes>) -> Result<BoxFuture<'static, Reply>, ErrorResponse> {
    let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let (mut allow, mut is_literal) = (Vec::new(), false);
    for route in ROUTES {
        let Some(params) = match_path(route.path, request.uri().path()) else { continue };
        // `/api/devices/codes` is not `/api/devices/{id}`.
        if is_literal && !params.is_empty() {
            continue;
        }
        is_literal |= params.is_empty();
        if route.method == *method {
            let params = decode_params(params)?;
            let request = RoutedRequest::new(Arc::clone(hub), request, params);
            request.refuse_revoked()?;
            match route.path.starts_with(NAMESPACES_PREFIX) {
                true => namespaces::require_operator(&request)?,
                false if hub.is_closed() => return Err(ErrorResponse::namespace_closed()),
                false => {}
            }
            if request.is_confirmed() {
                return Ok((route.handle)(request));
            }
            return Ok(Box::pin(async move {
                refuse_unconfirmed(&request.hub, request.credential()).await?;
                (route.handle)(request).await
            }));
        }
        allow.push(if route.method == Method::GET { "GET,HEAD" } else { route.method.as_str() });
    }
    Err(if allow.is_empty() { ErrorResponse::no_route() } else { ErrorResponse::method_not_allowed(allow.join(",")) })
}

/// Returns the parameters of a path, percent-encoded, if the pattern of a route matches. A parameter is not empty.
fn match_path<'p>(pattern: &'static str, path: &'p str) -> Option<Vec<(&'static str, &'p str)>> {
    let (mut params, mut segments) = (Vec::new(), path.split('/'));
    for expected in pattern.split('/') {
        let found = segments.next()?;
        match expected.strip_prefix('{') {
            Some(_) if found.is_empty() => return None,
            Some(name) => params.push((name.trim_end_matches('}'), found)),
            None if expected != found => return None,
            None => {}
        }
    }
    segments.next().is_none().then_some(params)
}
