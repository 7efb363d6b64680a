//! A lookup in the database that waits for its batch.

use futures::channel::oneshot;

use crate::store::{DbError, Row, Statement};

pub struct Lookup {
    pub statements: Vec<Statement>,
    /// Receives the rows of each statement.
    pub sender: oneshot::Sender<Result<Vec<Vec<Row>>, DbError>>,
}
