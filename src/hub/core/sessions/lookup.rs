//! Lookups in the database that wait for their batch.

use futures::channel::oneshot;

use crate::hub::core::ports::ConnId;
use crate::hub::core::sessions::evictions::ReadTicket;
use crate::store::{DbError, Row, Statement};

pub struct Lookup {
    pub statements: Vec<Statement>,
    /// Receives the rows of each statement.
    pub sender: oneshot::Sender<Result<Vec<Vec<Row>>, DbError>>,
}

/// A message whose local id must be looked up.
pub struct UnknownLocalId {
    pub session: String,
    pub local_id: String,
    /// The CLI that sent the message; `None` for a web client.
    pub from: Option<ConnId>,
}

/// The lookups of local ids that a batch contains.
pub struct LocalIdLookup {
    /// Sessions and local ids.
    pub pairs: Vec<(String, String)>,
    pub ticket: ReadTicket,
}
