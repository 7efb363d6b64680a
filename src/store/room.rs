//! Room for large texts that are read whole to be answered. Each stays in memory until its client has taken it, however
//! slowly; so what is under way at once is bounded, and what finds no room is refused before it is read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The room for large texts: how many bytes of them may be under way at once.
#[derive(Debug)]
pub struct Room {
    /// For all together, in bytes.
    limit: usize,
    /// For each namespace, in bytes.
    each: usize,
    held: Mutex<HashMap<String, usize>>,
}

/// A text's share of a [`Room`], which is given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    room: Arc<Room>,
    whose: String,
    bytes: usize,
}

/// A text on its way into an answer, with its share of the room when it is a large one.
#[derive(Debug)]
pub struct Held {
    /// The text.
    pub text: String,
    /// Its share.
    pub share: Option<Share>,
}

impl Room {
    /// A room for so many bytes, in all and of each namespace.
    pub fn new(limit: usize, each: usize) -> Arc<Self> {
        Arc::new(Self { limit, each, held: Mutex::default() })
    }

    /// Takes a share for a text of a namespace. `None`: there is no room, for others are under way; one that is alone comes
    /// in, however large it is.
    pub fn enter(self: &Arc<Self>, whose: &str, bytes: usize) -> Option<Share> {
        let mut held = self.held();
        let (all, own) = (held.values().sum::<usize>(), held.get(whose).copied().unwrap_or(0));
        let fits = |held: usize, limit: usize| held == 0 || held + bytes <= limit;
        if !fits(all, self.limit) || !fits(own, self.each) {
            return None;
        }
        *held.entry(whose.to_owned()).or_default() += bytes;
        Some(Share { room: Arc::clone(self), whose: whose.to_owned(), bytes })
    }

    fn held(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.room.held();
        if let Some(bytes) = held.get_mut(&self.whose) {
            *bytes = bytes.saturating_sub(self.bytes);
            if *bytes == 0 {
                held.remove(&self.whose);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_is_bounded_for_all_and_for_each() {
        let room = Room::new(10, 6);
        let first = room.enter("a", 4).unwrap();
        assert!(room.enter("a", 3).is_none(), "more than a namespace may have");
        let second = room.enter("a", 2).unwrap();
        let third = room.enter("b", 4).unwrap();
        assert!(room.enter("c", 1).is_none(), "the room is full");
        drop(first);
        assert!(room.enter("c", 5).is_none());
        let fourth = room.enter("c", 4).unwrap();
        drop((second, third, fourth));
        assert!(room.held().is_empty());
    }

    #[test]
    fn what_is_larger_than_the_room_comes_in_alone() {
        let room = Room::new(10, 6);
        let large = room.enter("a", 20).unwrap();
        assert!(room.enter("a", 1).is_none() && room.enter("b", 1).is_none());
        drop(large);
        assert!(room.enter("b", 1).is_some());
    }
}
