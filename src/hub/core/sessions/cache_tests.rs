use std::cell::Cell;

use super::*;
use crate::model::json::Json;
use crate::model::large::InlineOrLarge;
use crate::model::namespace::Namespace;

/// A limit that no test reaches.
const UNLIMITED: usize = usize::MAX;

fn session(n: usize) -> Session {
    Session::new(n.to_string(), Namespace::parse("team").unwrap(), format!("/{n}"), None, 0)
}

#[test]
fn an_insertion_into_a_full_cache_examines_few_sessions() {
    for all_in_use in [false, true] {
        let (mut cache, examined) = (Cache::default(), Cell::new(0));
        let insertions = 5 * MAX_CACHED_SESSIONS;
        for n in 0..insertions {
            cache.insert_created(session(n), &mut BeforeImages::default());
            cache.evict(
                UNLIMITED,
                |_| true,
                |_| {
                    examined.set(examined.get() + 1);
                    all_in_use
                },
            );
        }
        assert!(examined.get() < 15 * insertions, "{}", examined.get());
        let kept = if all_in_use { insertions } else { MAX_CACHED_SESSIONS + MAX_CACHED_SESSIONS / RANKING_DIVISOR };
        assert!(cache.sessions.len() <= kept, "{}", cache.sessions.len());
    }
}

#[test]
fn the_counted_bytes_follow_every_change() {
    let mut cache = Cache::default();
    let check = |cache: &mut Cache| {
        let sum: usize = cache.sessions.values().map(CachedSession::bytes).sum();
        assert_eq!(cache.session_bytes(), sum);
    };
    for n in 0..4 {
        cache.insert(session(n));
    }
    let images = &mut BeforeImages::default();
    cache.insert_created(session(4), images);
    check(&mut cache);
    for length in [500, 20] {
        let text = Some(Json::of(&"x".repeat(length)));
        cache.entry_mut("1", images).unwrap().session.metadata = InlineOrLarge::from_inline(text.clone());
        cache.entry_mut_without_before_image("2").unwrap().session.todos = text;
        check(&mut cache);
    }
    cache.entry_mut("1", images).unwrap().session.metadata = InlineOrLarge::Null;
    cache.remove("1", images);
    cache.remove("2", images);
    cache.insert(session(1));
    check(&mut cache);
    cache.clear();
    check(&mut cache);
}
