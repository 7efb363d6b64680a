//! Inbound frames of CLIs: authentication with CONNECT, then events.

pub mod connect;
pub mod events;
pub mod frames;
pub mod registrations;
pub mod replies;

use crate::hub::Hub;
use crate::hub::core::ports::ConnId;

/// A socket of the hub, of which the platform reports frames and the close.
#[derive(Clone, Copy)]
pub struct Socket<'a> {
    hub: &'a Hub,
    conn: ConnId,
}

impl Hub {
    pub fn socket(&self, conn: ConnId) -> Socket<'_> {
        Socket { hub: self, conn }
    }
}
