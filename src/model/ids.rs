//! Identifiers that the hub generates: UUID version 7 (RFC 9562), which sorts by creation time.

/// Formats a UUID v7 from a Unix time in milliseconds and ten random bytes.
pub fn uuid_v7(now_ms: u64, random: &[u8; 10]) -> String {
    uuid::Builder::from_unix_timestamp_millis(now_ms, random).into_uuid().to_string()
}
