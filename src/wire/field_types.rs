//! Field types for untrusted JSON: each accepts exactly one JSON type.
//!
//! Serde's error for a string in place of another type contains several escaped copies of the string: with 30 MiB, more than the
//! memory of the worker. These types first truncate the string to [`MAX_ECHO_CHARS`] characters.

use std::borrow::Cow;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    Deserializer, Error, Expected, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};

use crate::limits::MAX_ECHO_CHARS;
use crate::model::json::to_whole;

/// Truncates a text to `max_chars` characters and an ellipsis.
pub fn truncate(text: &str, max_chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

/// Deserializes a unit variant from a string (`deserialize_with`). Serde itself would also accept the object `{"variant": null}`.
pub fn keyword<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Keyword::deserialize(deserializer).map(|Keyword(value)| value)
}

/// Like [`keyword`], for a field that may be absent (with `default`) or null.
pub fn optional_keyword<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let keyword = Option::<Keyword<T>>::deserialize(deserializer)?;
    Ok(keyword.map(|Keyword(value)| value))
}

struct Keyword<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Keyword<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Text<T> {
            type Value = T;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
                T::deserialize(truncate(text, MAX_ECHO_CHARS).into_deserializer())
            }
        }
        deserializer.deserialize_str(Text(PhantomData)).map(Self)
    }
}

/// Deserializes a number or boolean (`deserialize_with`).
pub fn scalar<'de, D: Deserializer<'de>, T: Scalar>(deserializer: D) -> Result<T, D::Error> {
    // Without `nullable`, null is an error.
    let value = deserializer.deserialize_any(ScalarVisitor { is_bool: T::IS_BOOL, nullable: false })?;
    Ok(T::of(value.unwrap_or_default()))
}

/// Like [`scalar`], for a field that may be absent (with `default`) or null.
pub fn optional_scalar<'de, D: Deserializer<'de>, T: Scalar>(deserializer: D) -> Result<Option<T>, D::Error> {
    let value = deserializer.deserialize_any(ScalarVisitor { is_bool: T::IS_BOOL, nullable: true })?;
    Ok(value.map(T::of))
}

/// A type that [`scalar`] deserializes.
pub trait Scalar: Sized {
    const IS_BOOL: bool;
    /// Converts the value of a [`ScalarVisitor`].
    fn of(value: u64) -> Self;
}

impl Scalar for bool {
    const IS_BOOL: bool = true;
    fn of(value: u64) -> Self {
        value == 1
    }
}

impl Scalar for u64 {
    const IS_BOOL: bool = false;
    fn of(value: u64) -> Self {
        value
    }
}

/// Deserializes null, a number, or a boolean as 0 or 1. Not generic over the type, so that it is compiled once.
/// The visitor itself rejects other values, because `serde_json` adds the position only to errors of a visitor.
struct ScalarVisitor {
    is_bool: bool,
    nullable: bool,
}

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Option<u64>;
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_bool { "a boolean" } else { "u64" })
    }
    fn visit_unit<E: Error>(self) -> Result<Option<u64>, E> {
        if self.nullable { Ok(None) } else { Err(E::invalid_type(Unexpected::Unit, &self)) }
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<Option<u64>, E> {
        if self.is_bool { Ok(Some(value.into())) } else { Err(E::invalid_type(Unexpected::Bool(value), &self)) }
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Option<u64>, E> {
        if self.is_bool { Err(E::invalid_type(Unexpected::Unsigned(value), &self)) } else { Ok(Some(value)) }
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Option<u64>, E> {
        let whole = to_whole(value).filter(|_| !self.is_bool);
        whole.map(Some).ok_or_else(|| E::invalid_type(Unexpected::Float(value), &self))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Option<u64>, E> {
        reject_text(text, &self)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<Option<u64>, A::Error> {
        reject_array(array, &self)
    }
    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Option<u64>, A::Error> {
        reject_object(object, &self)
    }
}

fn reject_text<T, E: Error>(text: &str, expected: &dyn Expected) -> Result<T, E> {
    Err(E::invalid_type(Unexpected::Str(&truncate(text, MAX_ECHO_CHARS)), expected))
}

// Before a type error, the rest of the value is skipped, so that the position of the error is the end of the value.

fn reject_array<'de, T, A: SeqAccess<'de>>(mut array: A, expected: &dyn Expected) -> Result<T, A::Error> {
    while array.next_element::<IgnoredAny>()?.is_some() {}
    Err(Error::invalid_type(Unexpected::Seq, expected))
}

fn reject_object<'de, T, A: MapAccess<'de>>(mut object: A, expected: &dyn Expected) -> Result<T, A::Error> {
    while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Err(Error::invalid_type(Unexpected::Map, expected))
}

pub struct List<T>(pub Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
            type Value = Vec<T>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a sequence")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
                reject_text(text, &self)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Vec<T>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = array.next_element()? {
                    items.push(item);
                }
                Ok(items)
            }
            fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Vec<T>, A::Error> {
                reject_object(object, &self)
            }
        }
        deserializer.deserialize_any(Items(PhantomData)).map(Self)
    }
}

/// A nested struct. Serde itself would also accept an array of the values of its fields.
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Members(PhantomData)).map(Self)
    }
}

/// The struct at the root of a JSON text that begins with `{`: unlike [`Object`], it needs no code for other JSON types.
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
    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        reject_text(text, &self)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<T, A::Error> {
        reject_array(array, &self)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}
