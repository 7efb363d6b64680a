//! Lookups in the database that wait for their batch or query.

use futures::channel::oneshot;

use crate::hub::error::Error;
use crate::hub::ports::ConnId;
use crate::store::{DbError, Row, Statement};

pub struct Lookup {
    pub statements: Vec<Statement>,
    /// Receives the rows of each statement.
    pub sender: oneshot::Sender<Result<Vec<Vec<Row>>, DbError>>,
}

/// A lookup of the message with a local id.
pub struct LocalIdLookup {
    /// The session and the local id.
    pub pair: (String, String),
    /// The CLI that sent a message with the local id; `None` for a web client.
    pub conn: Option<ConnId>,
    pub sender: oneshot::Sender<Result<(), Error>>,
}

/// The lookups of local ids whose query has not begun.
#[derive(Default)]
pub struct LocalIdLookups {
    pub waiting: Vec<LocalIdLookup>,
    /// Whether a task runs lookups.
    pub is_running: bool,
}
