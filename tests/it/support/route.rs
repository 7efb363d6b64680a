//! The type of a row in the table of routes, and the error responses that are derived from it.

use session_gateway_hub::http::extract::is_upload;
use session_gateway_hub::hub::core::ports::UploadFault;

use super::field_faults::{Field, Param};

#[derive(Debug, Clone, Copy)]
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    pub scope: Scope,
    /// The state of the session that the route requires.
    pub session_state: SessionState,
    /// The fields of the body; empty without a body.
    pub body: &'static [Field],
    pub query: &'static [Param],
    /// The RPC method that the route calls, and a successful result.
    pub call: Option<(&'static str, &'static str)>,
    /// The error statuses that the specification names for the route.
    pub specified_statuses: &'static [u16],
    /// The errors that are not derived from the other columns.
    pub extra_errors: &'static [ExpectedError],
}

/// The data that a route accesses. The path of a route to a session, machine or device contains `{id}`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scope {
    /// Requires no token.
    Public,
    Namespace,
    Session,
    Machine,
    Device,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SessionState {
    Any,
    Active,
    Inactive,
}

/// An error response and the conditions that cause it.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedError {
    pub status: u16,
    pub code: &'static str,
    /// The invalid field, or empty.
    pub field: &'static str,
    /// Each condition alone causes the error.
    pub conditions: &'static [Condition],
}

/// A deviation from a valid request, or a state in which a valid request fails. In texts, placeholders such as `$session` and
/// `$foreign_session` are replaced by ids.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Condition {
    NoToken,
    /// An invalid token.
    Token(&'static str),
    /// A JWT, which is valid only for web clients.
    WebToken,
    UnsupportedMethod,
    UnknownId,
    ForeignId,
    /// The id of a part of the session, such as a request or a held message, is unknown.
    UnknownPartId,
    Body(&'static str),
    OversizedBody,
    Query(&'static str),
    /// A WebSocket upgrade from another origin.
    ForeignOrigin,
    /// The query of a socket without a WebSocket upgrade.
    NoUpgrade,
    /// The session is not in the required state.
    WrongState,
    /// The session's metadata has the largest allowed size.
    FullMetadata,
    /// The session's metadata has no conversation id of the agent.
    NoAgentId,
    /// The flavor of the session is not alpha.
    OtherFlavor,
    /// Database reads fail after a hibernation.
    FailingReads,
    /// Database writes fail.
    FailingWrites,
    /// The write queue has reached its limit.
    FullWriteQueue,
    /// Receiving the upload fails.
    UploadFails(UploadFault),
    /// The largest number of codes is waiting for devices.
    TooManyCodes,
    /// The namespace has the largest number of sessions.
    TooManySessions,
    /// The storage of the namespace is full.
    FullStorage,
    /// The namespace has sent as many messages in the last minute as it may.
    TooManyMessages,
    /// The limit of concurrent uploads is reached.
    TooManyUploads,
    MethodNotRegistered,
    /// The CLI responds to the call with this result.
    CliResponds(&'static str),
    CliDisconnects,
    CliTimesOut,
    /// The spawned session does not become active.
    NeverActive,
    /// The permission request is no longer pending.
    NoRequest,
    /// The permission request has other arguments.
    ChangedRequest,
    /// The same request succeeded before.
    Repeated,
    TenMinutesLater,
    /// The push subscription was deleted.
    Unsubscribed,
}

impl Condition {
    /// Whether the request must have no effect: no write, no call, no event.
    pub fn has_no_effect(self) -> bool {
        match self {
            // A token with a dot may be a JWT, whose key is read from the database.
            Self::Token(token) => !token.contains('.'),
            Self::NoToken | Self::UnsupportedMethod | Self::UnknownId | Self::ForeignId => true,
            Self::UnknownPartId | Self::Body(_) | Self::OversizedBody | Self::Query(_) => true,
            _ => false,
        }
    }
}

pub const fn error(status: u16, code: &'static str, conditions: &'static [Condition]) -> ExpectedError {
    ExpectedError { status, code, field: "", conditions }
}

/// An invalid field or parameter.
pub const fn invalid_field(field: &'static str, conditions: &'static [Condition]) -> ExpectedError {
    ExpectedError { status: 400, code: "invalid_field", field, conditions }
}

impl Route {
    const fn new(method: &'static str, path: &'static str, scope: Scope) -> Self {
        Self {
            method,
            path,
            scope,
            session_state: SessionState::Any,
            body: &[],
            query: &[],
            call: None,
            specified_statuses: &[],
            extra_errors: &[],
        }
    }

    pub const fn public(method: &'static str, path: &'static str) -> Self {
        Self::new(method, path, Scope::Public)
    }

    pub const fn namespace(method: &'static str, path: &'static str) -> Self {
        Self::new(method, path, Scope::Namespace)
    }

    pub const fn session(method: &'static str, path: &'static str) -> Self {
        Self::new(method, path, Scope::Session)
    }

    pub const fn machine(method: &'static str, path: &'static str) -> Self {
        Self::new(method, path, Scope::Machine)
    }

    pub const fn device(method: &'static str, path: &'static str) -> Self {
        Self::new(method, path, Scope::Device)
    }

    pub const fn method(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    pub const fn path(self, path: &'static str) -> Self {
        Self { path, ..self }
    }

    pub const fn active(self) -> Self {
        Self { session_state: SessionState::Active, ..self }
    }

    pub const fn inactive(self) -> Self {
        Self { session_state: SessionState::Inactive, ..self }
    }

    pub const fn body(self, body: &'static [Field]) -> Self {
        Self { body, ..self }
    }

    pub const fn query(self, query: &'static [Param]) -> Self {
        Self { query, ..self }
    }

    pub const fn call(self, method: &'static str, result: &'static str) -> Self {
        Self { call: Some((method, result)), ..self }
    }

    pub const fn statuses(self, specified_statuses: &'static [u16]) -> Self {
        Self { specified_statuses, ..self }
    }

    pub const fn fails(self, extra_errors: &'static [ExpectedError]) -> Self {
        Self { extra_errors, ..self }
    }

    /// All error responses: the extra errors, and the errors that are derived from the other columns.
    pub fn errors(&self) -> Vec<ExpectedError> {
        let mut all = vec![];
        if self.scope != Scope::Public {
            let invalid_tokens = &[
                Condition::NoToken,
                Condition::Token(""),
                Condition::Token("wrong"),
                Condition::Token("wrong:team"),
                Condition::Token("secret:no namespace"),
                Condition::Token("a.b.c"),
            ];
            all.push(error(401, "unauthorized", invalid_tokens));
        }
        if self.path.starts_with("/cli/") {
            all.push(error(401, "unauthorized", &[Condition::WebToken]));
        }
        // Requests without a WebSocket upgrade are rejected with any method.
        if !self.path.starts_with("/socket.io") {
            all.push(error(405, "method_not_allowed", &[Condition::UnsupportedMethod]));
        }
        match self.scope {
            Scope::Session => all.push(error(404, "session_not_found", &[Condition::UnknownId])),
            Scope::Machine => all.push(error(404, "machine_not_found", &[Condition::UnknownId])),
            Scope::Device => all.push(error(404, "device_not_found", &[Condition::UnknownId])),
            Scope::Public | Scope::Namespace => {}
        }
        if matches!(self.scope, Scope::Session | Scope::Machine) {
            all.push(error(403, "forbidden", &[Condition::ForeignId]));
        }
        // The routes that need no data of the database.
        let in_memory = "/config /visibility /events /push/log /namespaces/import /namespaces/move";
        let is_in_memory = in_memory.split(' ').any(|path| self.path.strip_prefix("/api") == Some(path));
        // The batches of these routes also write, so a fault of read-only batches does not affect these routes.
        let is_write = self.path == "/api/devices/codes" || self.path.ends_with("{code}");
        if self.scope != Scope::Public && !is_in_memory && !is_write {
            all.push(error(503, "hub_unavailable", &[Condition::FailingReads]));
        }
        if !self.body.is_empty() {
            all.push(error(400, "invalid_body", &[Condition::Body("x")]));
        }
        // An upload has its own limit.
        if !self.body.is_empty() && self.scope != Scope::Public && !is_upload(self.method, self.path) {
            all.push(error(413, "body_too_large", &[Condition::OversizedBody]));
        }
        all.extend(self.extra_errors);
        all
    }

    /// Whether the route may return a status.
    pub fn may_return(&self, status: u16) -> bool {
        let is_field_error =
            status == 400 && !(self.body.is_empty() && self.query.is_empty() && !self.path.contains('{'));
        let is_size_error = status == 413 && !self.body.is_empty();
        status == 200 || is_field_error || is_size_error || self.errors().iter().any(|error| error.status == status)
    }
}

const CLI_ERROR: Condition = Condition::CliResponds(r#"{"success":false,"error":"not now"}"#);
const UNREACHABLE: &[Condition] = &[Condition::MethodNotRegistered, Condition::CliDisconnects];
pub const CLI_UNREACHABLE: ExpectedError = error(503, "cli_unreachable", UNREACHABLE);
pub const CLI_REFUSED: ExpectedError = error(503, "cli_refused", &[CLI_ERROR]);
pub const RPC_TIMEOUT: ExpectedError = error(504, "rpc_timeout", &[Condition::CliTimesOut]);
pub const INACTIVE: ExpectedError = error(409, "session_inactive", &[Condition::WrongState]);
pub const NO_WRITES: ExpectedError = error(503, "hub_unavailable", &[Condition::FailingWrites]);
/// PROTOCOL-WEB.md "Life cycle and modes".
pub const NOT_APPLIED: ExpectedError = error(
    409,
    "mode_not_applied",
    &[
        Condition::MethodNotRegistered,
        Condition::CliDisconnects,
        Condition::CliTimesOut,
        CLI_ERROR,
        Condition::CliResponds("{}"),
        Condition::CliResponds("7"),
        Condition::CliResponds(r#"{"applied":{}}"#),
    ],
);
/// PROTOCOL-WEB.md "Uploads".
pub const UPLOAD_FAILED: ExpectedError = error(
    500,
    "upload_failed",
    &[Condition::MethodNotRegistered, Condition::CliDisconnects, Condition::CliTimesOut, Condition::CliResponds("7")],
);
/// PROTOCOL-WEB.md "Life cycle and modes".
pub const OPTION_NOT_APPLIED: ExpectedError = error(
    409,
    "option_not_applied",
    &[
        Condition::MethodNotRegistered,
        Condition::CliDisconnects,
        Condition::CliTimesOut,
        CLI_ERROR,
        Condition::CliResponds("7"),
    ],
);
/// PROTOCOL-WEB.md "The queue".
pub const NOT_QUEUED: ExpectedError =
    error(409, "not_queued", &[Condition::CliResponds(r#"{"success":false,"code":"not_queued","error":"It runs."}"#)]);
pub const UPLOAD_BREAKS: Condition = Condition::UploadFails(UploadFault::Broken);
pub const FILE_TOO_LARGE: Condition = Condition::UploadFails(UploadFault::TooLarge);
/// PROTOCOL-WEB.md "Machines".
pub const NOT_CHECKED: ExpectedError = error(
    500,
    "check_failed",
    &[
        Condition::MethodNotRegistered,
        Condition::CliDisconnects,
        Condition::CliTimesOut,
        CLI_ERROR,
        Condition::CliResponds("7"),
        Condition::CliResponds(r#"{"error":"no permission"}"#),
        Condition::CliResponds(r#"{"/code":"yes"}"#),
        Condition::CliResponds(r#"{"exists":{"/code":null}}"#),
    ],
);
