//! What a row of the table of routes says, and the refusals that follow from it.

use session_gateway_hub::http::extract::is_upload;
use session_gateway_hub::hub::ports::UploadFault;

use super::faults::{Field, Param};

/// A route.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    pub of: Of,
    /// The state of the session in which the route does what it is for.
    pub when: When,
    /// The fields of its body; none when it reads no body.
    pub body: &'static [Field],
    pub query: &'static [Param],
    /// The method that it calls, and a result with which it is done.
    pub call: Option<(&'static str, &'static str)>,
    /// The error statuses that the specification names for it.
    pub specified: &'static [u16],
    /// What only this route refuses.
    pub particular: &'static [ErrorResponse],
}

/// Whose thing a route is about: what `{id}` stands for in its path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Of {
    /// Nobody's: it takes no token.
    Anyone,
    Namespace,
    Session,
    Machine,
}

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum When {
    Either,
    Active,
    Inactive,
}

/// A refusal: what is given, and how it is answered.
#[derive(Debug, Clone, Copy)]
pub struct ErrorResponse {
    pub status: u16,
    pub code: &'static str,
    /// The field that is at fault, or empty.
    pub field: &'static str,
    /// Each of these alone is refused so.
    pub given: &'static [Given],
}

/// What is wrong in an otherwise good request. `$session`, `$machine`, `$subscription` and their `$foreign_` twins stand
/// for ids in a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Given {
    NoToken,
    /// A token that is good for nothing.
    Token(&'static str),
    /// A token that is good for the web only.
    WebToken,
    OtherMethod,
    UnknownId,
    ForeignId,
    UnknownRequest,
    Body(&'static str),
    /// More bytes than a body may have.
    HugeBody,
    /// More bytes than fit a row, in a field that has no limit of its own.
    HugeAnswers,
    Query(&'static str),
    /// The upgrade to a WebSocket comes from a page of another origin.
    ForeignOrigin,
    /// A socket's query, but no upgrade to a WebSocket.
    NoUpgrade,
    /// The session is active where it should not be, or the other way round.
    WrongState,
    /// The session's metadata is as large as it may be.
    FullMetadata,
    /// The session's metadata holds no id of the agent's own.
    NoAgentId,
    /// The session's agent is of another kind than alpha.
    OtherFlavor,
    /// The database can't be read, after the object slept.
    NoReads,
    /// The database refuses to write.
    NoWrites,
    /// More waits for the database than may.
    FullJournal,
    /// The upload's body does not arrive, for this reason.
    UploadFails(UploadFault),
    /// As many uploads are under way as may be, and wait.
    ManyUploads,
    NoHandler,
    /// The CLI answers the call with this.
    CliSays(&'static str),
    CliLeaves,
    CliIsSilent,
    /// The machine started the session, but nothing was heard of it.
    NeverActive,
}

impl Given {
    /// Whether nothing may come of it: it is refused before anybody is asked or told.
    pub fn is_refused_at_once(self) -> bool {
        match self {
            // The key for what may be a JWT is kept in the database.
            Self::Token(token) => !token.contains('.'),
            Self::NoToken | Self::OtherMethod | Self::UnknownId | Self::ForeignId => true,
            Self::UnknownRequest | Self::Body(_) | Self::HugeBody | Self::HugeAnswers | Self::Query(_) => true,
            _ => false,
        }
    }
}

pub const fn refusal(status: u16, code: &'static str, given: &'static [Given]) -> ErrorResponse {
    ErrorResponse { status, code, field: "", given }
}

/// A field or parameter is at fault.
pub const fn invalid(field: &'static str, given: &'static [Given]) -> ErrorResponse {
    ErrorResponse { status: 400, code: "invalid_field", field, given }
}

impl Route {
    pub const fn new(method: &'static str, path: &'static str, of: Of) -> Self {
        let (body, query, specified, particular): (&[Field], &[Param], &[u16], &[ErrorResponse]) = (&[], &[], &[], &[]);
        Self { method, path, of, when: When::Either, body, query, call: None, specified, particular }
    }

    /// Every refusal of the route: its own, and what follows from its columns.
    pub fn refusals(&self) -> Vec<ErrorResponse> {
        let mut all = vec![];
        if self.of != Of::Anyone {
            let good_for_nothing = &[
                Given::NoToken,
                Given::Token(""),
                Given::Token("wrong"),
                Given::Token("wrong:team"),
                Given::Token("secret:no namespace"),
                Given::Token("a.b.c"),
            ];
            all.push(refusal(401, "unauthorized", good_for_nothing));
        }
        if self.path.starts_with("/cli/") {
            all.push(refusal(401, "unauthorized", &[Given::WebToken]));
        }
        // Every method of the official client's other transport is answered alike.
        if !self.path.starts_with("/socket.io") {
            all.push(refusal(405, "method_not_allowed", &[Given::OtherMethod]));
        }
        match self.of {
            Of::Session => all.push(refusal(404, "session_not_found", &[Given::UnknownId])),
            Of::Machine => all.push(refusal(404, "machine_not_found", &[Given::UnknownId])),
            Of::Anyone | Of::Namespace => {}
        }
        if matches!(self.of, Of::Session | Of::Machine) {
            all.push(refusal(403, "forbidden", &[Given::ForeignId]));
        }
        // Who looks at what, and what became of notifications, the object knows without the database.
        let known = ["/api/visibility", "/api/events", "/api/push/log"].contains(&self.path);
        if self.of != Of::Anyone && !known {
            all.push(refusal(503, "hub_unavailable", &[Given::NoReads]));
        }
        if !self.body.is_empty() {
            all.push(refusal(400, "invalid_body", &[Given::Body("x")]));
        }
        // An upload has a limit of its own.
        if !self.body.is_empty() && self.of != Of::Anyone && !is_upload(self.method, self.path) {
            all.push(refusal(413, "body_too_large", &[Given::HugeBody]));
        }
        all.extend(self.particular);
        all
    }

    /// Whether the route may ever answer with a status, by its row.
    pub fn may_answer(&self, status: u16) -> bool {
        let by_field = status == 400 && !(self.body.is_empty() && self.query.is_empty() && !self.path.contains('{'));
        let by_size = status == 413 && !self.body.is_empty();
        status == 200 || by_field || by_size || self.refusals().iter().any(|refusal| refusal.status == status)
    }
}
