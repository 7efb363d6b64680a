//! A small reader of Rust source: enough syntax to find the paths, words and string literals of a file.

use std::collections::{BTreeMap, BTreeSet};

/// A word, `::`, another character, or a string literal that begins with its quotation mark.
#[derive(Debug, Clone)]
pub struct Token {
    pub line: usize,
    pub text: String,
}

/// A source file without its comments and `#[cfg(test)]` items.
pub struct Source {
    /// The path below `src`.
    pub file: String,
    pub line_count: usize,
    pub tokens: Vec<Token>,
}

/// The files that each file uses, with the line of the first use.
pub type Uses = BTreeMap<String, BTreeMap<String, usize>>;

/// Returns the uses between files, from imports and from paths in code.
pub fn uses(sources: &[Source]) -> Uses {
    let files: BTreeMap<Vec<String>, &str> = sources.iter().map(|s| (s.module(), s.file.as_str())).collect();
    let modules = files.keys().collect();
    let mut uses = Uses::new();
    for source in sources {
        let used = uses.entry(source.file.clone()).or_default();
        for (line, path) in source.paths(&modules) {
            // The longest prefix that is a module: the other segments name an item in it.
            let file = (0..=path.len()).rev().find_map(|end| files.get(&path[..end]));
            if let Some(file) = file.filter(|file| **file != source.file) {
                used.entry((*file).to_owned()).or_insert(line);
            }
        }
    }
    uses
}

impl Source {
    pub fn parse(file: &str, text: &str) -> Self {
        Self { file: file.to_owned(), line_count: text.lines().count(), tokens: without_tests(&tokenize(text)) }
    }

    /// The path of the module: `["hub", "commit"]` for `hub/commit.rs`.
    fn module(&self) -> Vec<String> {
        let path = self.file.trim_end_matches(".rs").trim_end_matches("/mod");
        path.split('/').filter(|segment| *segment != "lib").map(str::to_owned).collect()
    }

    /// Returns the paths into this crate that the file names, from the crate root, with their lines.
    fn paths(&self, modules: &BTreeSet<&Vec<String>>) -> Vec<(usize, Vec<String>)> {
        let (mut imports, mut in_code) = (Vec::new(), Vec::new());
        let mut tokens = self.tokens.as_slice();
        while let [token, rest @ ..] = tokens {
            match (token.text.as_str(), text_at(rest, 0)) {
                ("use", _) => tokens = read_use_tree(rest, &[], &mut imports),
                // `pub(in crate::hub)` names a scope.
                ("pub", "(") => tokens = after(rest, ")"),
                (word, "::") if is_word(word) => {
                    let mut path = vec![word.to_owned()];
                    tokens = rest;
                    while text_at(tokens, 0) == "::" && is_word(text_at(tokens, 1)) {
                        path.push(tokens[1].text.clone());
                        tokens = &tokens[2..];
                    }
                    in_code.push((token.line, path));
                }
                _ => tokens = rest,
            }
        }
        let module = self.module();
        let mut paths = Vec::new();
        let mut imported_names = BTreeMap::new();
        for Import { line, path, name } in imports {
            if let Some(path) = from_root(&path, &module, modules) {
                imported_names.insert(name, path.clone());
                paths.push((line, path));
            }
        }
        for (line, path) in in_code {
            let imported = imported_names.get(&path[0]).map(|import| [import, &path[1..]].concat());
            paths.extend(imported.or_else(|| from_root(&path, &module, modules)).map(|path| (line, path)));
        }
        paths
    }
}

/// Returns a path from the crate root; `None` for a path into another crate.
fn from_root(path: &[String], module: &[String], modules: &BTreeSet<&Vec<String>>) -> Option<Vec<String>> {
    let supers = path.iter().take_while(|segment| *segment == "super").count();
    match path[0].as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([module, &path[1..]].concat()),
        "super" => Some([&module[..module.len() - supers], &path[supers..]].concat()),
        _ => modules.contains(&[module, &path[..1]].concat()).then(|| [module, path].concat()),
    }
}

struct Import {
    line: usize,
    path: Vec<String>,
    /// The name that the import binds.
    name: String,
}

/// Reads the tree after `use` or within its braces, and returns the tokens after it.
fn read_use_tree<'t>(mut tokens: &'t [Token], prefix: &[String], imports: &mut Vec<Import>) -> &'t [Token] {
    let mut path = prefix.to_vec();
    let line = tokens[0].line;
    loop {
        match text_at(tokens, 0) {
            "{" => {
                tokens = &tokens[1..];
                while text_at(tokens, 0) != "}" {
                    tokens = read_use_tree(tokens, &path, imports);
                    if text_at(tokens, 0) == "," {
                        tokens = &tokens[1..];
                    }
                }
                return &tokens[1..];
            }
            "as" => {
                imports.push(Import { line, path, name: tokens[1].text.clone() });
                return &tokens[2..];
            }
            word if is_word(word) => {
                if word != "self" || path.is_empty() {
                    path.push(word.to_owned());
                }
            }
            "::" | "*" => {}
            _ => {
                let name = path.last().cloned().unwrap_or_default();
                imports.push(Import { line, path, name });
                return tokens;
            }
        }
        tokens = &tokens[1..];
    }
}

/// The text of a token; empty after the last one.
pub fn text_at(tokens: &[Token], index: usize) -> &str {
    tokens.get(index).map_or("", |token| &token.text)
}

fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Returns the tokens after the next one with this text.
fn after<'t>(tokens: &'t [Token], text: &str) -> &'t [Token] {
    let position = tokens.iter().position(|token| token.text == text);
    &tokens[position.map_or(tokens.len(), |position| position + 1)..]
}

/// Removes the items with `#[cfg(test)]`.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let attribute = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut remaining, mut index) = (Vec::new(), 0);
    while index < tokens.len() {
        if !attribute.iter().enumerate().all(|(offset, text)| text_at(tokens, index + offset) == *text) {
            remaining.push(tokens[index].clone());
            index += 1;
            continue;
        }
        index += attribute.len();
        // The item ends at the first `;` or block that is outside of brackets.
        let mut depth = 0;
        while index < tokens.len() {
            let text = text_at(tokens, index);
            index += 1;
            match text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 && matches!(text, ";" | "}") {
                break;
            }
        }
    }
    remaining
}

/// Splits a text into tokens. Drops comments, spaces, characters and lifetimes.
fn tokenize(text: &str) -> Vec<Token> {
    let (mut tokens, mut rest, mut line) = (Vec::new(), text, 1);
    while !rest.is_empty() {
        let (token, after) = rest.split_at(token_length(rest));
        let is_comment = token.starts_with("//") || token.starts_with("/*");
        if !is_comment && !token.starts_with(char::is_whitespace) && !token.starts_with('\'') {
            let is_literal = token.ends_with(['"', '#']) && token.len() > 1;
            // Drops the prefix of a raw or byte string.
            let token = token.find('"').filter(|_| is_literal).map_or(token, |quote| &token[quote..]);
            tokens.push(Token { line, text: token.to_owned() });
        }
        line += token.matches('\n').count();
        rest = after;
    }
    tokens
}

/// Returns the length of the first token, comment or space of a text.
fn token_length(text: &str) -> usize {
    let end = |from: usize, mark: &str| text[from..].find(mark).map_or(text.len(), |offset| from + offset + mark.len());
    let word_end = |from: usize| {
        let end = text[from..].find(|c: char| !c.is_alphanumeric() && c != '_');
        end.map_or(text.len(), |offset| from + offset)
    };
    let word = word_end(0);
    let hashes = text[word..].len() - text[word..].trim_start_matches('#').len();
    let is_raw_string = matches!(&text[..word], "r" | "br") && text[word + hashes..].starts_with('"');
    let mut characters = text.char_indices().map(|(_, character)| character);
    match [characters.next(), characters.next(), characters.next()] {
        [Some('/'), Some('/'), _] => text.find('\n').unwrap_or(text.len()),
        [Some('/'), Some('*'), _] => end(2, "*/"),
        [Some(':'), Some(':'), _] => 2,
        [Some('"'), ..] => string_length(text),
        [Some('\''), Some('\\'), _] => end(3, "'"),
        [Some('\''), Some(character), Some('\'')] => 2 + character.len_utf8(),
        [Some('\''), ..] => word_end(1),
        _ if is_raw_string => end(word + hashes + 1, &format!("\"{}", "#".repeat(hashes))),
        [Some(first), ..] => word.max(first.len_utf8()),
        _ => 0,
    }
}

/// The length of the string literal at the start of a text, including its quotation marks.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        if character == '"' && !is_escaped {
            return at + 1;
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    text.len()
}
