//! What can be wrong with a field of a JSON object or a query: made from a short description of the field, so that a new
//! field gets all of it for one line in a table.

use serde_json::{Value, json};
use session_gateway_hub::model::json::JsonObject;

/// A field of a request's body or of an event's payload.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Where it stands: `name`, `metadata.path`, `attachments[0].size`. What it stands in is a field, too, whose good value
    /// holds it.
    pub name: &'static str,
    pub kind: Kind,
    pub required: bool,
    /// A value that is taken, as JSON text.
    pub good: &'static str,
}

/// What a field holds.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Text {
        at_least: usize,
        at_most: Length,
    },
    /// A text of base64, with padding.
    Base64,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number from 0.
    Whole {
        at_most: u64,
    },
    /// A time in milliseconds: any number.
    Time,
    Flag,
    /// A list of texts.
    Texts {
        at_least: usize,
        at_most: usize,
    },
    /// An object, whose fields follow in the table.
    Object,
    /// A list of objects, whose fields follow in the table.
    Objects,
    /// JSON that is the client's own; larger than so many bytes it is refused as a whole.
    Opaque {
        of: Opaque,
        at_most: Option<usize>,
    },
    /// The answers to a permission request: texts to lists of texts, or to objects with such a list.
    Answers,
}

/// How long a text may be.
#[derive(Debug, Clone, Copy)]
pub enum Length {
    /// As long as its body.
    Free,
    Bytes(usize),
    CodePoints(usize),
}

/// What opaque JSON has to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Opaque {
    Anything,
    Object,
    ObjectOrNull,
}

/// How a wrong value is refused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Refused {
    /// The field, or an element of it, is named.
    Field,
    /// It does not fit where it is kept.
    TooLarge,
}

impl Field {
    const fn new(name: &'static str, kind: Kind, good: &'static str) -> Self {
        Self { name, kind, required: true, good }
    }

    pub const fn text(name: &'static str, at_least: usize, at_most: Length) -> Self {
        Self::new(name, Kind::Text { at_least, at_most }, r#""x""#)
    }

    pub const fn base64(name: &'static str) -> Self {
        Self::new(name, Kind::Base64, r#""eA==""#)
    }

    /// One of some words; `good` is one of them as JSON text.
    pub const fn word(name: &'static str, words: &'static [&'static str], good: &'static str) -> Self {
        Self::new(name, Kind::Word(words), good)
    }

    pub const fn whole(name: &'static str, at_most: u64) -> Self {
        Self::new(name, Kind::Whole { at_most }, "1")
    }

    pub const fn time(name: &'static str) -> Self {
        Self::new(name, Kind::Time, "9999999999999")
    }

    pub const fn flag(name: &'static str) -> Self {
        Self::new(name, Kind::Flag, "true")
    }

    pub const fn texts(name: &'static str, at_least: usize, at_most: usize) -> Self {
        Self::new(name, Kind::Texts { at_least, at_most }, r#"["x"]"#)
    }

    pub const fn object(name: &'static str, good: &'static str) -> Self {
        Self::new(name, Kind::Object, good)
    }

    pub const fn objects(name: &'static str, good: &'static str) -> Self {
        Self::new(name, Kind::Objects, good)
    }

    /// Opaque JSON of at most so many bytes; any number where only the body around it has a limit.
    pub const fn opaque(name: &'static str, of: Opaque, at_most: Option<usize>) -> Self {
        Self::new(name, Kind::Opaque { of, at_most }, "{}")
    }

    pub const fn answers(name: &'static str) -> Self {
        Self::new(name, Kind::Answers, r#"{"q":["a"]}"#)
    }

    /// The field may be left out, and null counts as left out.
    pub const fn optional(self) -> Self {
        Self { required: false, ..self }
    }

    pub const fn good(self, good: &'static str) -> Self {
        Self { good, ..self }
    }

    /// The values that are refused, as JSON texts, and how each is.
    pub fn faults(&self) -> Vec<(String, Refused)> {
        let mut faults: Vec<(String, Refused)> =
            self.wrong_types().map(|text| (text.to_owned(), Refused::Field)).collect();
        faults.extend(self.wrong_values());
        // How deep a client nests its own JSON is for the whole of that to bear.
        let in_opaque = self.name.starts_with("metadata.");
        if !in_opaque && !matches!(self.kind, Kind::Opaque { .. }) {
            faults.push(("[".repeat(10_000) + &"]".repeat(10_000), Refused::Field));
            if !matches!(self.kind, Kind::Object) {
                faults.push((r#"{"a":"#.repeat(10_000) + "1" + &"}".repeat(10_000), Refused::Field));
            }
        }
        faults
    }

    fn wrong_types(&self) -> impl Iterator<Item = &'static str> {
        let every_type = ["null", "true", "7", "1.5", r#""x""#, "[]", "{}", r#"["x"]"#, r#"{"x":1}"#];
        let kind = self.kind;
        let nullable = !self.required;
        every_type.into_iter().filter(move |text| {
            let fits = match (kind, text.as_bytes()[0]) {
                (_, b'n') if nullable => true,
                (Kind::Text { .. }, b'"') | (Kind::Flag, b't') => true,
                (Kind::Whole { at_most }, b'7') => at_most >= 7,
                (Kind::Time, b'7' | b'1') => true,
                (Kind::Texts { .. }, b'[') => true,
                // What is missing in an object is the fault of its fields.
                (Kind::Object, b'{') => true,
                (Kind::Objects, _) => *text == "[]",
                (Kind::Answers, _) => *text == "{}",
                (Kind::Opaque { of, .. }, first) => match of {
                    Opaque::Anything => true,
                    Opaque::Object => first == b'{',
                    Opaque::ObjectOrNull => matches!(first, b'{' | b'n'),
                },
                _ => false,
            };
            !fits
        })
    }

    fn wrong_values(&self) -> Vec<(String, Refused)> {
        let texts =
            |values: &[&str]| values.iter().map(|text| ((*text).to_owned(), Refused::Field)).collect::<Vec<_>>();
        match self.kind {
            Kind::Text { at_least, at_most } => {
                // Half of a character of UTF-16 is none.
                let mut wrong = texts(&[r#""\ud800""#, r#""a\udc00b""#]);
                let too_long = match at_most {
                    Length::Free => None,
                    Length::Bytes(bytes) => Some("x".repeat(bytes + 1)),
                    Length::CodePoints(points) => Some("\u{1F980}".repeat(points + 1)),
                };
                let too_short = at_least.checked_sub(1).map(|length| "x".repeat(length));
                wrong.extend(
                    too_long.into_iter().chain(too_short).map(|text| (json!(text).to_string(), Refused::Field)),
                );
                wrong
            }
            Kind::Base64 => {
                let wrong = [
                    "eA=",
                    "eA",
                    "e A=",
                    "eA==eA==",
                    "====",
                    "_-8=",
                    "data:text/plain;base64,eA==",
                    "é===",
                    "eA==\u{0}",
                ];
                wrong
                    .iter()
                    .map(|text| (json!(text).to_string(), Refused::Field))
                    .chain(texts(&[r#""\ud800""#]))
                    .collect()
            }
            Kind::Word(words) => {
                let mut wrong = texts(&[r#""""#, r#""__proto__""#, r#""constructor""#, r#""\ud800""#, "0"]);
                for word in words {
                    let near =
                        [json!([word]), json!({*word: null}), json!(word.to_uppercase()), json!(format!("{word} "))];
                    wrong.extend(near.map(|value| (value.to_string(), Refused::Field)));
                }
                wrong
            }
            Kind::Whole { at_most } => {
                let mut wrong = texts(&["-1", "1e2", "1.0", "1e400", "-1e400", "18446744073709551616", r#""1""#]);
                wrong.extend(at_most.checked_add(1).map(|number| (number.to_string(), Refused::Field)));
                wrong
            }
            Kind::Time => texts(&["1e400", "-1e400", r#""1""#, r#""2030-01-01T00:00:00Z""#]),
            Kind::Flag => texts(&["0", "1", r#""true""#, r#""""#]),
            Kind::Texts { at_least, at_most } => {
                let mut wrong =
                    texts(&[r#"["a",5]"#, r#"["a",null]"#, r#"["a",["b"]]"#, r#"{"0":"a"}"#, r#"["\ud800"]"#]);
                wrong.extend(at_least.checked_sub(1).map(|_| ("[]".to_owned(), Refused::Field)));
                let too_many = at_most.checked_add(1).filter(|_| at_most < usize::MAX);
                wrong.extend(too_many.map(|many| (json!(vec!["a"; many]).to_string(), Refused::Field)));
                wrong
            }
            Kind::Object => {
                // The values of a good object in their order, but without their names.
                let values: Vec<&str> = JsonObject::parse(self.good).unwrap().members().map(|(_, v)| v.get()).collect();
                texts(&[&format!("[{}]", values.join(",")), r#""{}""#])
            }
            Kind::Objects => {
                // The values of a good object in their order, but without their names.
                let element = self.good.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap();
                let values: Vec<&str> = JsonObject::parse(element).unwrap().members().map(|(_, v)| v.get()).collect();
                let nameless = format!("[[{}]]", values.join(","));
                texts(&["[1]", "[null]", r#"["a"]"#, "[[]]", "[{}]", &nameless])
            }
            Kind::Answers => texts(&[
                r#"{"q":"a"}"#,
                r#"{"q":null}"#,
                r#"{"q":[1]}"#,
                r#"{"q":{}}"#,
                r#"{"q":{"answers":"a"}}"#,
                r#"{"q":{"answers":[1]}}"#,
                r#"{"q":["a"],"r":{"answers":["b"]}}"#,
                r#"{"\ud800":["a"]}"#,
            ]),
            Kind::Opaque { at_most, .. } => {
                let large = |at_most| format!(r#"{{{}"large":"{}"}}"#, self.inner(), "x".repeat(at_most));
                at_most.map(|at_most| (large(at_most), Refused::TooLarge)).into_iter().collect()
            }
        }
    }

    /// The members of a good object, to which others can be added.
    fn inner(&self) -> String {
        let inside = self.good.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
        if inside.is_empty() { String::new() } else { format!("{inside},") }
    }

    fn pointer(&self) -> String {
        format!("/{}", self.name.replace(['.', '['], "/").replace(']', ""))
    }

    fn is_in(&self, around: &Self) -> bool {
        self.name.strip_prefix(around.name).is_some_and(|rest| rest.starts_with(['.', '[']))
    }

    fn key(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap()
    }
}

/// An object of required fields, as it is taken.
pub fn good(fields: &[Field]) -> Value {
    let mut object = json!({});
    for field in fields.iter().filter(|field| field.required && !field.name.contains('.')) {
        object[field.name] = serde_json::from_str(field.good).unwrap();
    }
    object
}

/// The same with another value for one field; a text, as JSON can hold what no [`Value`] can.
pub fn with(fields: &[Field], field: &Field, value: &str) -> String {
    const PLACE: &str = "the place of the value";
    let around = fields.iter().find(|around| field.is_in(around)).unwrap_or(field);
    let mut object = good(fields);
    object[around.name] = serde_json::from_str(around.good).unwrap();
    *object.pointer_mut(&field.pointer()).unwrap() = json!(PLACE);
    object.to_string().replace(&json!(PLACE).to_string(), value)
}

/// The same with a field standing there twice; `None` inside of opaque JSON, where that is the client's own affair.
pub fn twice(fields: &[Field], field: &Field) -> Option<String> {
    let opaque = fields.iter().any(|around| field.is_in(around) && matches!(around.kind, Kind::Opaque { .. }));
    (!opaque).then(|| with(fields, field, &format!(r#"{},"{}":{}"#, field.good, field.key(), field.good)))
}

/// The same without a field.
pub fn without(fields: &[Field], field: &Field) -> String {
    let mut object: Value = serde_json::from_str(&with(fields, field, "null")).unwrap();
    let pointer = field.pointer();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key);
    object.to_string()
}

/// Whether a refusal names a field, or an element of it.
pub fn names(refused: &str, field: &str) -> bool {
    refused.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
}

/// A parameter of a query.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    pub name: &'static str,
    pub kind: ParamKind,
}

/// What a parameter holds.
#[derive(Debug, Clone, Copy)]
pub enum ParamKind {
    Whole {
        at_least: u64,
        at_most: u64,
    },
    Flag,
    Word(&'static [&'static str]),
    /// A relative path.
    Path {
        required: bool,
    },
    /// A pattern for file names.
    Pattern,
    /// Any text; of an id that is wrong it is said that nothing is there.
    Text(&'static str),
}

impl Param {
    /// Whether the route asks for it.
    pub fn required(&self) -> bool {
        matches!(self.kind, ParamKind::Path { required: true })
    }

    /// A value that is taken.
    pub fn good(&self) -> &'static str {
        match self.kind {
            ParamKind::Whole { .. } | ParamKind::Flag => "1",
            ParamKind::Word(words) => words[0],
            ParamKind::Path { .. } => "src%2Fa.rs",
            ParamKind::Pattern => "*.rs",
            ParamKind::Text(good) => good,
        }
    }

    /// Queries with a wrong value of this parameter, and the code that refuses them.
    pub fn faults(&self) -> Vec<(String, &'static str)> {
        const FIELD: &str = "invalid_field";
        let Self { name, kind } = *self;
        let good = self.good();
        let values: Vec<String> = match kind {
            ParamKind::Whole { at_least, at_most } => {
                let around = [at_least.checked_sub(1), Some(at_most + 1)].into_iter().flatten().map(|n| n.to_string());
                let wrong = ["", "x", "-1", "1.5", "1e2", "%2B5", "+5", "0x5", "%205", "5%00", "%zz", "%D9%A3"];
                let huge = ["9007199254740992", "18446744073709551616", "99999999999999999999999999"];
                around.chain(wrong.into_iter().chain(huge).map(str::to_owned)).collect()
            }
            ParamKind::Flag => ["", "yes", "2", "TRUE", "%zz", "null"].map(str::to_owned).into(),
            ParamKind::Word(words) => {
                let near =
                    words.iter().flat_map(|word| [word.to_uppercase(), format!("{word}%20"), format!("{word},")]);
                near.chain(["", "__proto__", "%zz"].map(str::to_owned)).collect()
            }
            ParamKind::Pattern => vec!["a%00b".into()],
            ParamKind::Path { .. } | ParamKind::Text(_) => vec![],
        };
        let mut faults: Vec<_> = values.into_iter().map(|value| (format!("{name}={value}"), FIELD)).collect();
        faults.push((format!("{name}={good}&{name}={good}"), FIELD));
        faults.push((format!("{name}={good}&%{:x}{}={good}", name.as_bytes()[0], &name[1..]), FIELD));
        faults.extend(["%ff", "%c0%ae", "%ed%a0%80", "a%80"].map(|value| (format!("{name}={value}"), FIELD)));
        if let ParamKind::Path { required } = kind {
            let out =
                ["..", "../a", "a/../../b", "a/..", "/etc/passwd", "%2e%2e/a", "%2Fetc", "..%5Ca", "C:%5Ca", "a%00b"];
            let out = out.into_iter().chain(["", "/"].into_iter().filter(|path| required || !path.is_empty()));
            faults.extend(out.map(|path| (format!("{name}={path}"), "invalid_path")));
            faults.extend(required.then(|| (String::new(), "invalid_path")));
        }
        faults
    }
}
