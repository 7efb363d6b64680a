//! The tags of all sessions of a namespace. A session with a new tag is created without a query.

use crate::store::summaries::TAG_END_CHARS;

/// The size above which no end is added and every tag may exist, in bytes. Reached if sessions are created and deleted very often.
const MAX_ENDS_BYTES: usize = 2_000_000;

/// The last characters of the tags. Ends of deleted sessions remain.
#[derive(Debug)]
pub struct Tags {
    pub session_count: usize,
    /// Each end follows a line break.
    ends: String,
}

impl Tags {
    /// `ends`: the result of [`count_without_tag`](crate::store::summaries::count_without_tag).
    pub fn new(session_count: usize, ends: String) -> Self {
        Self { session_count, ends }
    }

    /// Whether a session may have the tag. SQLite cuts a text at a NUL character, so a tag with one may always exist.
    pub fn may_contain(&self, tag: &str) -> bool {
        self.ends.len() > MAX_ENDS_BYTES || tag.contains('\0') || self.ends.contains(&to_line(tag))
    }

    pub fn add_session(&mut self, tag: &str) {
        self.session_count += 1;
        if self.ends.len() <= MAX_ENDS_BYTES {
            self.ends.push_str(&to_line(tag));
        }
    }

    pub fn bytes(&self) -> usize {
        self.ends.len()
    }
}

fn to_line(tag: &str) -> String {
    let start = tag.char_indices().rev().nth(TAG_END_CHARS - 1).map_or(0, |(start, _)| start);
    ["\n", tag.get(start..).unwrap_or(tag)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_new_unless_a_session_has_or_had_a_tag_with_the_same_end() {
        let mut tags = Tags::new(0, String::new());
        ["/code#0123456789abcdef", "ü"].iter().for_each(|tag| tags.add_session(tag));
        for known in ["/code#0123456789abcdef", "/other#0123456789abcdef", "ü", "a\0b"] {
            assert!(tags.may_contain(known), "{known:?}");
        }
        for new in ["/code#1123456789abcdef", "123456789abcdef", "x", "/ü"] {
            assert!(!tags.may_contain(new), "{new}");
        }
        assert_eq!(tags.session_count, 2);
    }

    #[test]
    fn above_the_largest_size_every_tag_may_exist() {
        let mut tags = Tags::new(1, "x".repeat(MAX_ENDS_BYTES));
        assert!(!tags.may_contain("b"));
        ["a", "a"].iter().for_each(|tag| tags.add_session(tag));
        assert!(tags.may_contain("b") && tags.bytes() == MAX_ENDS_BYTES + 2 && tags.session_count == 3);
    }
}
