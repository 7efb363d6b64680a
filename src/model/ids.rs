//! Identifiers made by the hub: UUID version 7 text (RFC 9562), so that they sort by the time of their making.

/// A fresh UUID v7 from a Unix time in milliseconds and ten random bytes.
pub fn uuid_v7(now_ms: u64, random: &[u8; 10]) -> String {
    uuid::Builder::from_unix_timestamp_millis(now_ms, random).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_later_moments_sort_after_earlier_ones() {
        let earlier = uuid_v7(1_700_000_000_000, &[0xff; 10]);
        let later = uuid_v7(1_700_000_000_001, &[0; 10]);
        assert!(earlier < later);
        assert_eq!(uuid::Uuid::parse_str(&earlier).unwrap().get_version_num(), 7);
    }
}
