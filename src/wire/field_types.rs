//! Field types for untrusted JSON: each accepts exactly one JSON type.
//!
//! Serde's error for a string in place of another type contains several escaped copies of the whole string. With a string of 30
//! MiB, the error would exceed the memory of the worker. These types truncate the string to [`MAX_ECHO_CHARS`] characters
//! first.

use std::borrow::Cow;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor};

use crate::limits::MAX_ECHO_CHARS;
use crate::model::json::to_whole;

/// Truncates a text to `max_chars` characters and an ellipsis.
pub fn truncate(text: &str, max_chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

/// Deserializes a unit variant of an enum from a string (`deserialize_with`). Serde itself would also accept the object
/// `{"variant": null}`.
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
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
                T::deserialize(truncate(text, MAX_ECHO_CHARS).into_deserializer())
            }
        }
        deserializer.deserialize_str(Text(PhantomData)).map(Self)
    }
}

/// Deserializes a number or boolean (`deserialize_with`).
pub fn scalar<'de, D: Deserializer<'de>, T: Scalar>(deserializer: D) -> Result<T, D::Error> {
    let value = deserializer.deserialize_any(ScalarVisitor { kind: T::KIND, nullable: false })?;
    T::of(&value).ok_or_else(|| value.type_error(T::KIND))
}

/// Like [`scalar`], for a field that may be absent (with `default`) or null.
pub fn optional_scalar<'de, D: Deserializer<'de>, T: Scalar>(deserializer: D) -> Result<Option<T>, D::Error> {
    let value = deserializer.deserialize_any(ScalarVisitor { kind: T::KIND, nullable: true })?;
    Ok(T::of(&value))
}

/// A type that [`scalar`] deserializes.
pub trait Scalar: Sized {
    const KIND: ScalarKind;
    /// Returns `None` for a value of another kind.
    fn of(value: &AnyValue) -> Option<Self>;
}

#[derive(Clone, Copy)]
pub enum ScalarKind {
    Bool,
    Unsigned,
}

impl Scalar for bool {
    const KIND: ScalarKind = ScalarKind::Bool;
    fn of(value: &AnyValue) -> Option<Self> {
        match value {
            AnyValue::Bool(value) => Some(*value),
            _ => None,
        }
    }
}

impl Scalar for u64 {
    const KIND: ScalarKind = ScalarKind::Unsigned;
    fn of(value: &AnyValue) -> Option<Self> {
        match value {
            AnyValue::Unsigned(value) => Some(*value),
            AnyValue::Float(value) => to_whole(*value),
            _ => None,
        }
    }
}

/// A JSON value without the content of arrays, objects and long strings.
pub enum AnyValue {
    Null,
    Bool(bool),
    Unsigned(u64),
    /// A negative integer.
    Signed(i64),
    Float(f64),
    /// Truncated.
    String(String),
    Array,
    Object,
}

impl AnyValue {
    #[cold]
    fn type_error<E: serde::de::Error>(&self, kind: ScalarKind) -> E {
        let found = match self {
            Self::Null => Unexpected::Unit,
            Self::Bool(value) => Unexpected::Bool(*value),
            Self::Unsigned(value) => Unexpected::Unsigned(*value),
            Self::Signed(value) => Unexpected::Signed(*value),
            Self::Float(value) => Unexpected::Float(*value),
            Self::String(text) => Unexpected::Str(text),
            Self::Array => Unexpected::Seq,
            Self::Object => Unexpected::Map,
        };
        let expected = match kind {
            ScalarKind::Bool => "a boolean",
            ScalarKind::Unsigned => "u64",
        };
        E::invalid_type(found, &expected)
    }
}

/// Deserializes a value of one kind. Not generic over the type, so that it is compiled once. The visitor itself rejects other
/// values, because `serde_json` adds the position only to errors of a visitor.
struct ScalarVisitor {
    kind: ScalarKind,
    nullable: bool,
}

impl ScalarVisitor {
    fn check<E: serde::de::Error>(&self, value: AnyValue) -> Result<AnyValue, E> {
        let fits = match self.kind {
            ScalarKind::Bool => bool::of(&value).is_some(),
            ScalarKind::Unsigned => u64::of(&value).is_some(),
        };
        let is_valid = fits || (self.nullable && matches!(value, AnyValue::Null));
        if is_valid { Ok(value) } else { Err(value.type_error(self.kind)) }
    }
}

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = AnyValue;
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number or boolean")
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
        self.check(AnyValue::String(truncate(text, MAX_ECHO_CHARS).into_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<AnyValue, A::Error> {
        skip_array(array)?;
        self.check(AnyValue::Array)
    }
    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<AnyValue, A::Error> {
        skip_object(object)?;
        self.check(AnyValue::Object)
    }
}

// Before a type error, the rest of the value is skipped, so that the position of the error is the end of the value.

fn skip_array<'de, A: SeqAccess<'de>>(mut array: A) -> Result<(), A::Error> {
    while array.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

fn skip_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<(), A::Error> {
    while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
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
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<T>, E> {
                Err(E::invalid_type(Unexpected::Str(&truncate(text, MAX_ECHO_CHARS)), &self))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Vec<T>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = array.next_element()? {
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
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        Err(E::invalid_type(Unexpected::Str(&truncate(text, MAX_ECHO_CHARS)), &self))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<T, A::Error> {
        skip_array(array)?;
        Err(serde::de::Error::invalid_type(Unexpected::Seq, &self))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}
