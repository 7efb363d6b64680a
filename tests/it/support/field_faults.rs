//! Generates invalid values of fields in JSON objects and queries from a short description of each field.

use session_gateway_hub::model::json::JsonObject;

use super::prelude::*;

/// A field of a request's body or of an event's payload.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// The path, such as `name`, `metadata.path` or `attachments[0].size`. The table also has a field for each containing
    /// object.
    pub name: &'static str,
    pub kind: FieldKind,
    pub required: bool,
    /// A valid value as JSON text.
    pub valid: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub enum FieldKind {
    Text {
        min: usize,
        max: Length,
        accepts_unpaired_surrogates: bool,
    },
    /// Base64 in any form that uploads accept.
    Base64,
    /// One of these keywords.
    Keyword(&'static [&'static str]),
    /// An integer from 0 to `max`.
    Integer {
        max: u64,
    },
    Flag,
    /// An array of strings.
    Strings {
        min: usize,
        max: usize,
    },
    /// An array of integers.
    Integers {
        min: usize,
        max: usize,
    },
    /// A string, a number or a boolean.
    Scalar,
    /// An object, whose fields follow in the table.
    Object,
    /// An array of objects, whose fields follow in the table.
    Objects,
    /// Opaque JSON with a size limit.
    Opaque {
        json_type: Opaque,
        max: Option<usize>,
    },
    /// The `answers` of a permission request.
    Answers,
}

#[derive(Debug, Clone, Copy)]
pub enum Length {
    /// The field has no limit of its own. The limit of the body applies.
    Unlimited,
    Bytes(usize),
    CodePoints(usize),
}

/// The type of opaque JSON.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Opaque {
    Anything,
    Object,
    ObjectOrNull,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rejection {
    /// The error code `invalid_field`, with the name of the field or of an element of it.
    InvalidField,
    /// The error for a value that exceeds its size limit.
    TooLarge,
}

impl Field {
    const fn new(name: &'static str, kind: FieldKind, valid: &'static str) -> Self {
        Self { name, kind, required: true, valid }
    }

    pub const fn text(name: &'static str, min: usize, max: Length) -> Self {
        Self::new(name, FieldKind::Text { min, max, accepts_unpaired_surrogates: false }, r#""x""#)
    }

    /// A text for people, which may contain half of a surrogate pair.
    pub const fn free_text(name: &'static str, min: usize, max: Length) -> Self {
        Self::new(name, FieldKind::Text { min, max, accepts_unpaired_surrogates: true }, r#""x""#)
    }

    pub const fn base64(name: &'static str) -> Self {
        Self::new(name, FieldKind::Base64, r#""eA==""#)
    }

    /// `valid` is one of the keywords as JSON text.
    pub const fn keyword(name: &'static str, keywords: &'static [&'static str], valid: &'static str) -> Self {
        Self::new(name, FieldKind::Keyword(keywords), valid)
    }

    pub const fn integer(name: &'static str, max: u64) -> Self {
        Self::new(name, FieldKind::Integer { max }, "1")
    }

    pub const fn flag(name: &'static str) -> Self {
        Self::new(name, FieldKind::Flag, "true")
    }

    pub const fn strings(name: &'static str, min: usize, max: usize) -> Self {
        Self::new(name, FieldKind::Strings { min, max }, r#"["x"]"#)
    }

    pub const fn integers(name: &'static str, min: usize, max: usize) -> Self {
        Self::new(name, FieldKind::Integers { min, max }, "[1]")
    }

    pub const fn scalar(name: &'static str) -> Self {
        Self::new(name, FieldKind::Scalar, r#""high""#)
    }

    pub const fn object(name: &'static str, valid: &'static str) -> Self {
        Self::new(name, FieldKind::Object, valid)
    }

    pub const fn objects(name: &'static str, valid: &'static str) -> Self {
        Self::new(name, FieldKind::Objects, valid)
    }

    pub const fn opaque(name: &'static str, json_type: Opaque, max: Option<usize>) -> Self {
        Self::new(name, FieldKind::Opaque { json_type, max }, "{}")
    }

    pub const fn answers(name: &'static str) -> Self {
        Self::new(name, FieldKind::Answers, r#"{"q":["a"]}"#)
    }

    /// Makes the field optional: it may be missing or null.
    pub const fn optional(self) -> Self {
        Self { required: false, ..self }
    }

    /// Replaces the valid value.
    pub const fn valid(self, valid: &'static str) -> Self {
        Self { valid, ..self }
    }

    /// The invalid values as JSON texts, with the expected error.
    pub fn faults(&self) -> Vec<(String, Rejection)> {
        let mut faults: Vec<(String, Rejection)> =
            self.invalid_types().map(|text| (text.to_owned(), Rejection::InvalidField)).collect();
        faults.extend(self.invalid_values());
        // Opaque JSON may be nested deeply.
        let is_in_opaque = self.name.starts_with("metadata.");
        if !is_in_opaque && !matches!(self.kind, FieldKind::Opaque { .. }) {
            faults.push(("[".repeat(10_000) + &"]".repeat(10_000), Rejection::InvalidField));
            if !matches!(self.kind, FieldKind::Object) {
                faults.push((r#"{"a":"#.repeat(10_000) + "1" + &"}".repeat(10_000), Rejection::InvalidField));
            }
        }
        faults
    }

    /// Values of other JSON types.
    fn invalid_types(&self) -> impl Iterator<Item = &'static str> {
        let value_of_each_type = ["null", "true", "7", "1.5", r#""x""#, "[]", "{}", r#"["x"]"#, r#"{"x":1}"#];
        let kind = self.kind;
        let is_nullable = !self.required;
        value_of_each_type.into_iter().filter(move |text| {
            let is_valid = match (kind, text.as_bytes()[0]) {
                (_, b'n') if is_nullable => true,
                (FieldKind::Text { .. }, b'"') | (FieldKind::Flag, b't') => true,
                (FieldKind::Integer { max }, b'7') => max >= 7,
                (FieldKind::Strings { .. }, b'[') => true,
                (FieldKind::Integers { .. }, _) => *text == "[]",
                (FieldKind::Scalar, first) => !matches!(first, b'n' | b'[' | b'{'),
                // The error for an empty object names a missing field instead of the object.
                (FieldKind::Object, b'{') => true,
                (FieldKind::Objects, _) => *text == "[]",
                (FieldKind::Answers, _) => *text == "{}",
                (FieldKind::Opaque { json_type, .. }, first) => match json_type {
                    Opaque::Anything => true,
                    Opaque::Object => first == b'{',
                    Opaque::ObjectOrNull => matches!(first, b'{' | b'n'),
                },
                _ => false,
            };
            !is_valid
        })
    }

    /// Values of the valid JSON type that are invalid.
    fn invalid_values(&self) -> Vec<(String, Rejection)> {
        let texts = |values: &[&str]| {
            values.iter().map(|text| ((*text).to_owned(), Rejection::InvalidField)).collect::<Vec<_>>()
        };
        match self.kind {
            FieldKind::Text { min, max, accepts_unpaired_surrogates } => {
                let unpaired_surrogates: &[&str] = &[r#""\ud800""#, r#""a\udc00b""#];
                let mut invalid = texts(if accepts_unpaired_surrogates { &[] } else { unpaired_surrogates });
                let too_long = match max {
                    Length::Unlimited => None,
                    Length::Bytes(bytes) => Some("x".repeat(bytes + 1)),
                    Length::CodePoints(points) => Some("\u{1F980}".repeat(points + 1)),
                };
                let too_short = min.checked_sub(1).map(|length| "x".repeat(length));
                invalid.extend(
                    too_long
                        .into_iter()
                        .chain(too_short)
                        .map(|text| (json!(text).to_string(), Rejection::InvalidField)),
                );
                invalid
            }
            FieldKind::Base64 => {
                let invalid =
                    ["eA=", "e", "e A=", "eA==eA==", "====", "data:text/plain;base64,eA==", "é===", "eA==\u{0}"];
                invalid
                    .iter()
                    .map(|text| (json!(text).to_string(), Rejection::InvalidField))
                    .chain(texts(&[r#""\ud800""#]))
                    .collect()
            }
            FieldKind::Keyword(keywords) => {
                let mut invalid = texts(&[r#""""#, r#""__proto__""#, r#""constructor""#, r#""\ud800""#, "0"]);
                for keyword in keywords {
                    let upper = keyword.to_uppercase();
                    let other_case = if upper == **keyword { keyword.to_lowercase() } else { upper };
                    let similar =
                        [json!([keyword]), json!({*keyword: null}), json!(other_case), json!(format!("{keyword} "))];
                    invalid.extend(similar.map(|value| (value.to_string(), Rejection::InvalidField)));
                }
                invalid
            }
            FieldKind::Integer { max } => {
                let mut invalid =
                    texts(&["-1", "-1.0", "1.5", "1e30", "1e400", "-1e400", "18446744073709551616", r#""1""#]);
                invalid.extend(max.checked_add(1).map(|number| (number.to_string(), Rejection::InvalidField)));
                invalid
            }
            FieldKind::Flag => texts(&["0", "1", r#""true""#, r#""""#]),
            FieldKind::Strings { min, max } => {
                let mut invalid =
                    texts(&[r#"["a",5]"#, r#"["a",null]"#, r#"["a",["b"]]"#, r#"{"0":"a"}"#, r#"["\ud800"]"#]);
                invalid.extend(min.checked_sub(1).map(|_| ("[]".to_owned(), Rejection::InvalidField)));
                let too_many = max.checked_add(1).filter(|_| max < usize::MAX);
                invalid.extend(too_many.map(|length| (json!(vec!["a"; length]).to_string(), Rejection::InvalidField)));
                invalid
            }
            FieldKind::Integers { min, max } => {
                let mut invalid = texts(&["[-1]", "[1.5]", r#"["1"]"#, "[null]", "[[1]]", r#"{"0":1}"#]);
                invalid.extend(min.checked_sub(1).map(|_| ("[]".to_owned(), Rejection::InvalidField)));
                invalid.push((json!(vec![1; max + 1]).to_string(), Rejection::InvalidField));
                invalid
            }
            FieldKind::Scalar => vec![],
            FieldKind::Object => {
                // An array with the values of a valid object, which a positional decoder would accept.
                let values: Vec<&str> =
                    JsonObject::parse(self.valid).unwrap().members().map(|(_, v)| v.get()).collect();
                texts(&[&format!("[{}]", values.join(",")), r#""{}""#])
            }
            FieldKind::Objects => {
                // An array with the values of a valid object, which a positional decoder would accept.
                let element = self.valid.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap();
                let values: Vec<&str> = JsonObject::parse(element).unwrap().members().map(|(_, v)| v.get()).collect();
                let array = format!("[[{}]]", values.join(","));
                texts(&["[1]", "[null]", r#"["a"]"#, "[[]]", "[{}]", &array])
            }
            FieldKind::Answers => {
                let answers = r#"{"q":"a"} {"q":null} {"q":[1]} {"q":{}} {"q":{"answers":"a"}} {"q":{"answers":[1]}} {"q":["a"],"r":{"answers":["b"]}} {"\ud800":["a"]}"#;
                texts(&answers.split(' ').collect::<Vec<_>>())
            }
            FieldKind::Opaque { max, .. } => {
                let large = |max| format!(r#"{{{}"large":"{}"}}"#, self.members_of_valid(), "x".repeat(max));
                max.map(|max| (large(max), Rejection::TooLarge)).into_iter().collect()
            }
        }
    }

    /// The text of the members of the valid object, with a trailing comma unless it is empty.
    fn members_of_valid(&self) -> String {
        let members = self.valid.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
        if members.is_empty() { String::new() } else { format!("{members},") }
    }

    /// The path as a JSON Pointer (RFC 6901).
    fn pointer(&self) -> String {
        format!("/{}", self.name.replace(['.', '['], "/").replace(']', ""))
    }

    fn is_in(&self, parent: &Self) -> bool {
        self.name.strip_prefix(parent.name).is_some_and(|rest| rest.starts_with(['.', '[']))
    }

    /// The last key of the path.
    fn key(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap()
    }
}

/// A valid object of the required fields.
pub fn valid_object(fields: &[Field]) -> Value {
    let mut object = json!({});
    for field in fields.iter().filter(|field| field.required && !field.name.contains('.')) {
        object[field.name] = serde_json::from_str(field.valid).unwrap();
    }
    object
}

/// A valid object in which a field has another value. Returns text, because a [`Value`] can't represent every JSON text.
pub fn with_value(fields: &[Field], field: &Field, value: &str) -> String {
    const PLACEHOLDER: &str = "the placeholder of the value";
    let parent = fields.iter().find(|parent| field.is_in(parent)).unwrap_or(field);
    let mut object = valid_object(fields);
    object[parent.name] = serde_json::from_str(parent.valid).unwrap();
    *object.pointer_mut(&field.pointer()).unwrap() = json!(PLACEHOLDER);
    object.to_string().replace(&json!(PLACEHOLDER).to_string(), value)
}

/// A valid object in which a field appears twice; `None` for a field in opaque JSON, where duplicates are allowed.
pub fn with_duplicate(fields: &[Field], field: &Field) -> Option<String> {
    let is_in_opaque =
        fields.iter().any(|parent| field.is_in(parent) && matches!(parent.kind, FieldKind::Opaque { .. }));
    (!is_in_opaque).then(|| with_value(fields, field, &format!(r#"{},"{}":{}"#, field.valid, field.key(), field.valid)))
}

/// A valid object in which a field is missing.
pub fn without_field(fields: &[Field], field: &Field) -> String {
    let mut object: Value = serde_json::from_str(&with_value(fields, field, "null")).unwrap();
    let pointer = field.pointer();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key);
    object.to_string()
}

/// Whether an error names a field or an element of it.
pub fn names_field(named: &str, field: &str) -> bool {
    named.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
}

/// A query parameter.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    pub name: &'static str,
    pub kind: ParamKind,
}

#[derive(Debug, Clone, Copy)]
pub enum ParamKind {
    Integer {
        min: u64,
        max: u64,
    },
    Flag,
    Keyword(&'static [&'static str]),
    /// A relative path.
    Path {
        required: bool,
    },
    /// A file name pattern.
    Pattern,
    /// Any text; the value is a valid example. An unknown id is not invalid, but a 404.
    Text(&'static str),
}

impl Param {
    pub fn is_required(&self) -> bool {
        matches!(self.kind, ParamKind::Path { required: true })
    }

    pub fn valid(&self) -> &'static str {
        match self.kind {
            ParamKind::Integer { .. } | ParamKind::Flag => "1",
            ParamKind::Keyword(keywords) => keywords[0],
            ParamKind::Path { .. } => "src%2Fa.rs",
            ParamKind::Pattern => "*.rs",
            ParamKind::Text(valid) => valid,
        }
    }

    /// Queries with an invalid value, and the expected error code.
    pub fn faults(&self) -> Vec<(String, &'static str)> {
        const INVALID_FIELD: &str = "invalid_field";
        let Self { name, kind } = *self;
        let valid = self.valid();
        let values: Vec<String> = match kind {
            ParamKind::Integer { min, max } => {
                let out_of_range = [min.checked_sub(1), Some(max + 1)].into_iter().flatten().map(|n| n.to_string());
                let invalid = ["x", "-1", "1.5", "1.", "1e2", "%2B5", "+5", "0x5", "%205", "5%00", "%zz", "%D9%A3"];
                let huge = ["9007199254740992", "18446744073709551616", "99999999999999999999999999"];
                out_of_range.chain(invalid.into_iter().chain(huge).map(str::to_owned)).collect()
            }
            ParamKind::Flag => ["yes", "2", "true%20", "%zz", "null"].map(str::to_owned).into(),
            ParamKind::Keyword(keywords) => {
                let similar = keywords
                    .iter()
                    .flat_map(|keyword| [keyword.to_uppercase(), format!("{keyword}%20"), format!("{keyword},")]);
                similar.chain(["__proto__", "%zz"].map(str::to_owned)).collect()
            }
            ParamKind::Pattern => vec!["a%00b".into()],
            ParamKind::Path { .. } | ParamKind::Text(_) => vec![],
        };
        let mut faults: Vec<_> = values.into_iter().map(|value| (format!("{name}={value}"), INVALID_FIELD)).collect();
        faults.push((format!("{name}={valid}&{name}={valid}"), INVALID_FIELD));
        faults.push((format!("{name}={valid}&%{:x}{}={valid}", name.as_bytes()[0], &name[1..]), INVALID_FIELD));
        faults.extend(["%ff", "%c0%ae", "%ed%a0%80", "a%80"].map(|value| (format!("{name}={value}"), INVALID_FIELD)));
        if let ParamKind::Path { required } = kind {
            let outside = ".. ../a a/../../b a/.. /etc/passwd /code/a %2e%2e/a %2Fetc ..%5Ca C:%5Ca a%00b";
            let invalid = outside.split(' ').chain(["", "/"].into_iter().filter(|path| required || !path.is_empty()));
            faults.extend(invalid.map(|path| (format!("{name}={path}"), "invalid_path")));
            faults.extend(required.then(|| (String::new(), "invalid_path")));
        }
        faults
    }
}
