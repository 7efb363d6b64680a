//! Files of a session: what its CLI is asked, and uploads.

pub mod files;
pub mod uploads;
