//! Enumerations of exact words, as the interface writes them.

use std::borrow::Cow;

/// The longest word for a mode, an agent or a method, in bytes.
pub const MAX_WORD: usize = 64;

/// A text that is none of the words of an enumeration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what}: expected one of {expected}")]
pub struct UnknownWord {
    /// What the word should have been, as `permission mode`.
    pub what: &'static str,
    /// The words that there are, comma separated.
    pub expected: Cow<'static, str>,
}

/// Reads a setting that is `true` or `false` (the default), in whatever case; the error names it. A word that is not
/// understood must not open what it was meant to close.
pub fn parse_truth(name: &str, text: Option<&str>) -> Result<bool, String> {
    match text.map(str::to_ascii_lowercase).as_deref() {
        Some("true") => Ok(true),
        None | Some("false") => Ok(false),
        Some(word) => Err(format!("{name} must be `true` or `false`, but is `{word}`.")),
    }
}

/// Makes an enumeration of exact words: `as_str`, `FromStr` and `Display` agree on them by construction.
macro_rules! words {
    (
        $(#[$meta:meta])*
        $name:ident, $what:literal {
            $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $name {
            /// All values, in the order of the specification.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word that stands for the value in the interface.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::model::words::UnknownWord;

            /// Takes the exact word; case and white space count.
            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::model::words::UnknownWord {
                        what: $what,
                        expected: words!(@list $($word)+).into(),
                    }),
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
    (@list $first:literal $($word:literal)*) => {
        concat!($first $(, ", ", $word)*)
    };
}
pub(super) use words;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truth_is_one_of_two_words_and_false_unless_it_is_set() {
        let read = |text| parse_truth("SETTING", text);
        assert_eq!([None, Some("false"), Some("TRUE")].map(read), [Ok(false), Ok(false), Ok(true)]);
        for odd in ["", "yes", "1", " true"] {
            assert!(read(Some(odd)).is_err_and(|error| error.starts_with("SETTING must be")), "{odd}");
        }
    }
}
