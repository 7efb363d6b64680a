//! What a CLI sends: from the open packet of its socket to the event that is carried out.

pub mod admission;
pub mod events;
pub mod frames;
pub mod pings;
pub mod registrations;
