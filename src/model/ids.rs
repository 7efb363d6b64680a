//! Identifiers that the hub generates: UUID version 7 (RFC 9562), which sorts by creation time.

/// Formats a UUID v7 from a Unix time in milliseconds and ten random bytes.
pub fn uuid_v7(now_ms: u64, random: &[u8; 10]) -> String {
    uuid::Builder::from_unix_timestamp_millis(now_ms, random).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_id_sorts_after_an_earlier_one() {
        let earlier = uuid_v7(1_700_000_000_000, &[0xff; 10]);
        let later = uuid_v7(1_700_000_000_001, &[0; 10]);
        assert!(earlier < later);
        assert_eq!(uuid::Uuid::parse_str(&earlier).unwrap().get_version_num(), 7);
    }
}
