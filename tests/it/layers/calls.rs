//! Calls of the methods of `Hub`, `Turn`, `State` and `Socket` between the files of the hub. A method is found by its name, which is unique.

use std::collections::BTreeMap;

use super::source::{Source, Token, Uses, text_at};

/// The types whose methods may be in any file of the hub.
const TYPES: [&str; 4] = ["Hub", "Turn", "State", "Socket"];
/// The names of variables and fields of these types, besides `self`.
const RECEIVERS: [&str; 5] = ["hub", "turn", "state", "socket", "woken"];

/// A method: its name, its file, and its line.
type Method<'s> = (&'s str, &'s str, usize);

/// Returns the calls between files.
pub fn calls(sources: &[Source]) -> Uses {
    let files: BTreeMap<&str, &str> = methods(sources).into_iter().map(|(name, file, _)| (name, file)).collect();
    let mut calls = Uses::new();
    for source in hub_sources(sources) {
        let called = calls.entry(source.file.clone()).or_default();
        for (token, is_self) in walk(&source.tokens).filter_map(|(index, scope)| call(&source.tokens, index, scope)) {
            let file = files.get(token.text.as_str()).filter(|file| **file != source.file);
            if let Some(file) = file.filter(|_| is_self) {
                called.entry((*file).to_owned()).or_insert(token.line);
            }
        }
    }
    calls
}

/// Returns the methods whose name another method has, too.
pub fn ambiguous_methods(sources: &[Source]) -> Vec<String> {
    let mut first: BTreeMap<&str, Method<'_>> = BTreeMap::new();
    let mut ambiguous = Vec::new();
    for (name, file, line) in methods(sources) {
        if let Some((_, other, other_line)) = first.get(name) {
            ambiguous.push(format!("`{name}` is a method at src/{other}:{other_line} and at src/{file}:{line}."));
        }
        first.entry(name).or_insert((name, file, line));
    }
    ambiguous
}

fn hub_sources(sources: &[Source]) -> impl Iterator<Item = &Source> {
    sources.iter().filter(|source| source.file.starts_with("hub/"))
}

/// Returns the methods of all impl blocks of [`TYPES`].
fn methods(sources: &[Source]) -> Vec<Method<'_>> {
    let mut methods = Vec::new();
    for source in hub_sources(sources) {
        for (index, scope) in walk(&source.tokens) {
            if scope == Scope::Impl && source.tokens[index].text == "fn" {
                let name = &source.tokens[index + 1];
                methods.push((name.text.as_str(), source.file.as_str(), name.line));
            }
        }
    }
    methods
}

/// Where a token is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Scope {
    /// Outside of the impl blocks of [`TYPES`].
    Outside,
    /// In such a block, between its methods.
    Impl,
    /// In a method.
    Method,
}

/// Returns the index of each token with its scope.
fn walk(tokens: &[Token]) -> impl Iterator<Item = (usize, Scope)> {
    let (mut depth, mut is_impl) = (0, false);
    (0..tokens.len()).map(move |index| {
        match text_at(tokens, index) {
            "{" => depth += 1,
            "}" => depth -= 1,
            "impl" if depth == 0 => {
                // `impl Trait for Hub` is not such a block: its methods are called through the trait.
                let end = (index..).find(|end| matches!(text_at(tokens, *end), "{" | "")).unwrap_or(index);
                let has = |text: &str| (index..end).any(|at| text_at(tokens, at) == text);
                is_impl = TYPES.iter().any(|name| has(name)) && !has("for");
            }
            _ => {}
        }
        let scope = match depth {
            0 => Scope::Outside,
            _ if !is_impl => Scope::Outside,
            1 => Scope::Impl,
            _ => Scope::Method,
        };
        (index, scope)
    })
}

/// Returns the name in a call `receiver.name(` or `Type::name`, and whether the receiver is of one of [`TYPES`].
fn call(tokens: &[Token], index: usize, scope: Scope) -> Option<(&Token, bool)> {
    let text = |offset: isize| index.checked_add_signed(offset).map_or("", |at| text_at(tokens, at));
    match text(0) {
        "." if text(2) == "(" || text(2) == "::" => {
            let is_turn = [text(-3), text(-2), text(-1)] == ["turn", "(", ")"];
            let is_self = text(-1) == "self" && scope == Scope::Method;
            Some((tokens.get(index + 1)?, is_turn || is_self || RECEIVERS.contains(&text(-1))))
        }
        "::" => Some((tokens.get(index + 1)?, TYPES.contains(&text(-1)))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(files: &[(&str, &str)]) -> Vec<Source> {
        files.iter().map(|(file, text)| Source::parse(file, text)).collect()
    }

    #[test]
    fn calls_of_methods_in_other_files_are_found_by_their_names() {
        let sources = parse(&[
            ("hub/a.rs", "impl Turn<'_> {\n    fn send(&mut self) {}\n    fn close(&mut self) { self.send() }\n}"),
            ("hub/b.rs", "impl Hub {\n    async fn write(&self) {\n        self.turn().send();\n    }\n}"),
            ("hub/c.rs", "fn f(hub: &Hub) { hub.write() }\nimpl Other { fn g(&self) { self.send() } }"),
            ("hub/d.rs", "impl Hub { fn h(&self) { items.map(Turn::close) } }"),
        ]);
        let calls = calls(&sources);
        let files = |file: &str| calls[file].iter().map(|(file, line)| (file.as_str(), *line)).collect::<Vec<_>>();
        assert_eq!(files("hub/a.rs"), []);
        assert_eq!(files("hub/b.rs"), [("hub/a.rs", 3)]);
        assert_eq!(files("hub/c.rs"), [("hub/b.rs", 1)]);
        assert_eq!(files("hub/d.rs"), [("hub/a.rs", 1)]);
    }

    #[test]
    fn a_second_method_of_a_name_is_reported() {
        let sources = parse(&[("hub/a.rs", "impl Hub { fn f() {} }"), ("hub/b.rs", "impl State { fn f() {} }")]);
        assert_eq!(ambiguous_methods(&sources), ["`f` is a method at src/hub/a.rs:1 and at src/hub/b.rs:1."]);
    }
}
