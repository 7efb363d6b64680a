use std::cell::Cell;

use super::*;
use crate::model::json::Json;
use crate::model::namespace::Namespace;

/// A limit that no test reaches.
const UNLIMITED: usize = usize::MAX;

fn session(n: usize) -> Session {
    Session::new(n.to_string(), Namespace::parse("team").unwrap(), format!("/{n}"), None, 0)
}

fn cached(cache: &Cache) -> Vec<usize> {
    let mut ids: Vec<usize> = cache.sessions.keys().map(|id| id.parse().unwrap()).collect();
    ids.sort_unstable();
    ids
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
fn sessions_that_become_idle_together_are_evicted_with_the_next_call() {
    let mut cache = Cache::default();
    for n in 0..3 * MAX_CACHED_SESSIONS {
        cache.insert(session(n));
        cache.evict(UNLIMITED, |_| true, |_| true);
    }
    cache.record_inactive(3 * MAX_CACHED_SESSIONS);
    cache.evict(UNLIMITED, |_| true, |_| false);
    assert_eq!(cache.sessions.len(), MAX_CACHED_SESSIONS);
}

#[test]
fn the_least_recently_used_sessions_are_evicted_first_but_none_in_use_or_with_work_in_progress() {
    let mut cache = Cache::default();
    for n in 0..=MAX_CACHED_SESSIONS {
        cache.insert(session(n));
        cache.touch("0");
        cache.evict(UNLIMITED, |id| id != "1", |id| id == "2");
    }
    assert!(cached(&cache).into_iter().eq((0..=MAX_CACHED_SESSIONS).filter(|n| *n != 3)));
    assert!(cache.list.get("3").is_some());
}

#[test]
fn sessions_in_use_are_evicted_after_idle_ones_and_immediately_to_free_memory() {
    let mut cache = Cache::default();
    for n in 0..2_000 {
        cache.insert(session(n));
    }
    let limit = MIN_CACHED_BYTES + ENTRY_BYTES * 200;
    let bytes = cache.evict(limit, |_| true, |id| id.len() < 4);
    assert!((MIN_CACHED_BYTES..=limit).contains(&bytes) && bytes == cache.session_bytes());
    let kept = cached(&cache);
    // All idle ones are evicted except the one used last.
    assert_eq!((kept.last(), kept[kept.len() - 2]), (Some(&1_999), 999));
    assert!(kept.windows(2).rev().skip(1).all(|pair| pair[0] + 1 == pair[1]));
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
        cache.entry_mut("1", images).unwrap().session.metadata = StoredField::new(text.clone(), None);
        cache.entry_mut_keeping_summary("2").unwrap().session.todos = text;
        check(&mut cache);
    }
    cache.entry_mut("1", images).unwrap().session.metadata = StoredField::Null;
    cache.remove("1", images);
    cache.remove("2", images);
    cache.insert(session(1));
    check(&mut cache);
    cache.clear();
    check(&mut cache);
}
