//! Field types that accept exactly their JSON type.
//!
//! Serde prints a text of the wrong type into its error in full, escaped, several times: 30 MiB become hundreds. These types
//! cut such a text to [`MAX_SHOWN`] characters before it reaches an error.

use std::borrow::Cow;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor};

/// How much of a value that does not fit is shown, in characters.
pub const MAX_SHOWN: usize = 100;

/// The beginning of a text that a client gets to see again, of at most so many characters.
pub fn shown(text: &str, longest: usize) -> Cow<'_, str> {
    match text.char_indices().nth(longest) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

/// Reads a word of an enumeration (`deserialize_with`): a text and nothing else. Serde itself would take the object
/// `{"word": null}`, too.
pub fn word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Word::deserialize(deserializer).map(|Word(word)| word)
}

/// The same for a field that may be absent (with `default`) or null.
pub fn optional_word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let word = Option::<Word<T>>::deserialize(deserializer)?;
    Ok(word.map(|Word(word)| word))
}

struct Word<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Text<T> {
            type Value = T;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
                T::deserialize(shown(text, MAX_SHOWN).into_deserializer())
            }
        }
        deserializer.deserialize_str(Text(PhantomData)).map(Self)
    }
}

/// A number or truth value (`deserialize_with`).
pub fn scalar<'de, D: Deserializer<'de>, T: Scalar>(deserializer: D) -> Result<T, D::Error> {
    let value = deserializer.deserialize_any(ScalarVisitor { kind: T::KIND, or_null: false })?;
    T::of(&value).ok_or_else(|| value.type_error(T::KIND))
}

/// The same for a field that may be absent (with `default`) or null.
pub fn optional_scalar<'de, D: Deserializer<'de>, T: Scalar>(deserializer: D) -> Result<Option<T>, D::Error> {
    let value = deserializer.deserialize_any(ScalarVisitor { kind: T::KIND, or_null: true })?;
    Ok(T::of(&value))
}

/// A type that [`scalar`] reads.
pub trait Scalar: Sized {
    /// The JSON type that it reads.
    const KIND: Kind;
    /// The value, if it is of this kind.
    fn of(value: &AnyValue) -> Option<Self>;
}

/// The JSON type of a field.
#[derive(Clone, Copy)]
pub enum Kind {
    /// `true` or `false`.
    Truth,
    /// A whole number that is not negative.
    Unsigned,
    /// Any number.
    Number,
}

impl Scalar for bool {
    const KIND: Kind = Kind::Truth;
    fn of(value: &AnyValue) -> Option<Self> {
        match value {
            AnyValue::Bool(value) => Some(*value),
            _ => None,
        }
    }
}

impl Scalar for u64 {
    const KIND: Kind = Kind::Unsigned;
    fn of(value: &AnyValue) -> Option<Self> {
        match value {
            AnyValue::Unsigned(value) => Some(*value),
            _ => None,
        }
    }
}

impl Scalar for f64 {
    const KIND: Kind = Kind::Number;
    #[allow(clippy::cast_precision_loss)] // As serde does it.
    fn of(value: &AnyValue) -> Option<Self> {
        match value {
            AnyValue::Float(value) => Some(*value),
            AnyValue::Unsigned(value) => Some(*value as Self),
            AnyValue::Signed(value) => Some(*value as Self),
            _ => None,
        }
    }
}

/// A JSON value without the content of lists, objects and long texts.
pub enum AnyValue {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A whole number that is not negative.
    Unsigned(u64),
    /// A negative whole number.
    Signed(i64),
    /// Another number.
    Float(f64),
    /// The beginning of a text.
    Text(String),
    /// A list.
    List,
    /// An object.
    Object,
}

impl AnyValue {
    #[cold]
    fn type_error<E: serde::de::Error>(&self, kind: Kind) -> E {
        let found = match self {
            Self::Null => Unexpected::Unit,
            Self::Bool(value) => Unexpected::Bool(*value),
            Self::Unsigned(value) => Unexpected::Unsigned(*value),
            Self::Signed(value) => Unexpected::Signed(*value),
            Self::Float(value) => Unexpected::Float(*value),
            Self::Text(text) => Unexpected::Str(text),
            Self::List => Unexpected::Seq,
            Self::Object => Unexpected::Map,
        };
        let expected = match kind {
            Kind::Truth => "a boolean",
            Kind::Unsigned => "u64",
            Kind::Number => "f64",
        };
        E::invalid_type(found, &expected)
    }
}

/// Reads a value of one kind. It rejects other values while it reads them, because only then does `serde_json` add the
/// position to the error.
struct ScalarVisitor {
    kind: Kind,
    or_null: bool,
}

impl ScalarVisitor {
    fn check<E: serde::de::Error>(&self, value: AnyValue) -> Result<AnyValue, E> {
        let fits = match self.kind {
            Kind::Truth => bool::of(&value).is_some(),
            Kind::Unsigned => u64::of(&value).is_some(),
            Kind::Number => f64::of(&value).is_some(),
        };
        let is_valid = fits || (self.or_null && matches!(value, AnyValue::Null));
        if is_valid { Ok(value) } else { Err(value.type_error(self.kind)) }
    }
}

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = AnyValue;
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number or truth value")
    }
    fn visit_unit<E: serde::de::Error>(self) -> Result<AnyValue, E> {
        self.check(AnyValue::Null)
    }
    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<AnyValue, E> {
        self.check(AnyValue::Bool(value))
    }
    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<AnyValue, E> {
        self.check(AnyValue::Unsigned(value))
    }
    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<AnyValue, E> {
        self.check(AnyValue::Signed(value))
    }
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<AnyValue, E> {
        self.check(AnyValue::Float(value))
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<AnyValue, E> {
        self.check(AnyValue::Text(shown(text, MAX_SHOWN).into_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<AnyValue, A::Error> {
        skip_list(list)?;
        self.check(AnyValue::List)
    }
    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<AnyValue, A::Error> {
        skip_object(object)?;
        self.check(AnyValue::Object)
    }
}

// Both read to the end, so that the position of the error that follows is behind the value.

fn skip_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<(), A::Error> {
    while list.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

fn skip_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<(), A::Error> {
    while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

/// A list.
pub struct List<T>(pub Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
            type Value = Vec<T>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a sequence")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<T>, E> {
                Err(E::invalid_type(Unexpected::Str(&shown(text, MAX_SHOWN)), &self))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(items)
            }
            fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Vec<T>, A::Error> {
                skip_object(object)?;
                Err(serde::de::Error::invalid_type(Unexpected::Map, &self))
            }
        }
        deserializer.deserialize_any(Items(PhantomData)).map(Self)
    }
}

/// A struct inside of another value, read from an object and nothing else. Serde itself would take the array of its values,
/// too.
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Members(PhantomData)).map(Self)
    }
}

/// A struct whose text is known to begin as an object.
pub struct Root<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Root<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(PhantomData)).map(Self)
    }
}

struct Members<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
    type Value = T;
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        Err(E::invalid_type(Unexpected::Str(&shown(text, MAX_SHOWN)), &self))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        skip_list(list)?;
        Err(serde::de::Error::invalid_type(Unexpected::Seq, &self))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}
