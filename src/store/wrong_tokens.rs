//! Limits the wrong tokens of a client address in a worker, or of all clients in an object, which does not know their addresses. A valid
//! token is not refused because others try wrong ones, except in the first seconds of a device: its client must try again.

use std::collections::HashMap;
use std::sync::Mutex;

use super::devices::{TOKEN_PREFIX_LEN, load_token_prefixes};
use super::{Database, DbError};
use crate::memory_budget::lock;

/// How many wrong tokens a client address may try within [`PERIOD_MS`].
const MAX_WRONG_TOKENS: u32 = 100;
const PERIOD_MS: u64 = 60_000;
/// How many client addresses are counted at once. If there are more, the oldest count is removed.
const MAX_COUNTED_CLIENTS: usize = 2_000;
/// How old the prefixes of devices' tokens may be, in milliseconds.
const REFRESH_MS: u64 = 10_000;

#[derive(Default)]
pub struct WrongTokens {
    /// How many wrong tokens each client address has tried, and until when they count, in Unix milliseconds.
    counts: Mutex<HashMap<String, (u32, u64)>>,
    /// The prefixes of the hashes of all tokens of devices, joined, and until when they are used; `None` until they are read.
    device_tokens: Mutex<(Option<String>, u64)>,
}

impl WrongTokens {
    /// Counts an attempt of a client address with a token that is wrong, or that is not checked yet: the caller then reverts the count
    /// if the token is valid. Returns false, and counts nothing, if the address has used up its attempts.
    pub fn count_attempt(&self, client: &str, now_ms: u64) -> bool {
        let mut counts = lock(&self.counts);
        let known = counts.get(client).copied().filter(|(_, until)| now_ms < *until);
        let (count, until) = known.unwrap_or((0, now_ms + PERIOD_MS));
        let is_allowed = count < MAX_WRONG_TOKENS;
        if is_allowed {
            if counts.len() >= MAX_COUNTED_CLIENTS && !counts.contains_key(client) {
                counts.retain(|_, (_, until)| now_ms < *until);
                let oldest = counts.iter().min_by_key(|(_, (_, until))| *until).map(|(client, _)| client.clone());
                // Removes nothing if counts have expired.
                oldest.filter(|_| counts.len() >= MAX_COUNTED_CLIENTS).and_then(|oldest| counts.remove(&oldest));
            }
            counts.insert(client.to_owned(), (count + 1, until));
        }
        is_allowed
    }

    /// Reverts a [`count_attempt`](Self::count_attempt), because the token is not wrong.
    pub fn revert_attempt(&self, client: &str) {
        if let Some((count, _)) = lock(&self.counts).get_mut(client) {
            *count = count.saturating_sub(1);
        }
    }

    /// Whether the token with this hash can be a device's token. If not, no query for the token is needed. Reads the hashes of all devices'
    /// tokens, but not more often than every ten seconds.
    pub async fn could_be_device_token(&self, db: &dyn Database, hash: &str, now_ms: u64) -> Result<bool, DbError> {
        {
            let mut known = lock(&self.device_tokens);
            let is_read_due = now_ms >= known.1;
            match &known.0 {
                Some(prefixes) if contains(prefixes, hash) => return Ok(true),
                Some(_) if !is_read_due => return Ok(false),
                // Another request is reading the hashes for the first time. Until then any token could be valid: the caller looks it up.
                None if !is_read_due => return Ok(true),
                _ => known.1 = now_ms + REFRESH_MS,
            }
        }
        let prefixes = load_token_prefixes(db).await?;
        let is_known = contains(&prefixes, hash);
        lock(&self.device_tokens).0 = Some(prefixes);
        Ok(is_known)
    }
}

fn contains(prefixes: &str, hash: &str) -> bool {
    let prefix = hash.as_bytes().get(..TOKEN_PREFIX_LEN);
    prefixes.as_bytes().chunks_exact(TOKEN_PREFIX_LEN).any(|known| Some(known) == prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn use_up(wrong: &WrongTokens, client: &str, now_ms: u64) {
        (0..MAX_WRONG_TOKENS).for_each(|_| assert!(wrong.count_attempt(client, now_ms)));
    }

    #[test]
    fn other_addresses_end_no_count_that_is_newer_than_theirs() {
        let wrong = WrongTokens::default();
        assert!(wrong.count_attempt("oldest", 1));
        use_up(&wrong, "attacker", 2);
        for number in 2..=MAX_COUNTED_CLIENTS {
            assert!(wrong.count_attempt(&number.to_string(), 3));
        }
        assert!(!wrong.count_attempt("attacker", 3));
        assert_eq!(lock(&wrong.counts).len(), MAX_COUNTED_CLIENTS);
        assert!(!lock(&wrong.counts).contains_key("oldest"));
    }

    #[test]
    fn expired_counts_make_room_first() {
        let wrong = WrongTokens::default();
        for number in 1..MAX_COUNTED_CLIENTS {
            assert!(wrong.count_attempt(&number.to_string(), 0));
        }
        use_up(&wrong, "attacker", PERIOD_MS - 1);
        assert!(wrong.count_attempt("new", PERIOD_MS));
        assert!(!wrong.count_attempt("attacker", PERIOD_MS));
        assert_eq!(lock(&wrong.counts).len(), 2);
    }
}
