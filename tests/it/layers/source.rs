//! A small reader of Rust source: finds the paths, words and string literals of a file, also those in macro calls.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// A word, `::`, another character, or a string literal that begins with its quotation mark.
#[derive(Debug, Clone)]
pub struct Token {
    pub line: usize,
    pub text: String,
}

/// A source file without its comments, attributes and `#[cfg(test)]` items.
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
        let mut tokens = Vec::new();
        add_tokens(text.parse().unwrap(), &mut tokens);
        Self { file: file.to_owned(), line_count: text.lines().count(), tokens }
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

/// Appends the tokens of a stream, without characters, lifetimes, doc comments, and items with `#[cfg(test)]`.
fn add_tokens(stream: TokenStream, tokens: &mut Vec<Token>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let line = tree.span().start().line;
        let mut add = |text: &str| tokens.push(Token { line, text: text.to_owned() });
        match tree {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                trees.next_if(|next| next.to_string() == "!");
                let attribute =
                    trees.next_if(|next| matches!(next, TokenTree::Group(_))).map(|group| group.to_string());
                let attribute = attribute.unwrap_or_default().replace(' ', "");
                if attribute == "[cfg(test)]" {
                    // The item ends at the first `;` or block.
                    trees.by_ref().find(is_end_of_item);
                }
            }
            TokenTree::Punct(mark) if mark.as_char() == '\'' => drop(trees.next()),
            TokenTree::Punct(mark) if mark.as_char() == ':' && mark.spacing() == Spacing::Joint => {
                add(if trees.next_if(|next| next.to_string() == ":").is_some() { "::" } else { ":" });
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                add(open);
                add_tokens(group.stream(), tokens);
                tokens.push(Token { line: group.span_close().start().line, text: close.to_owned() });
            }
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                // Drops the prefix of a raw or byte string.
                let start = text.find(['"', '\'']).unwrap_or(0);
                if !text[start..].starts_with('\'') {
                    add(&text[start..]);
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => add(&tree.to_string()),
        }
    }
}

fn is_end_of_item(tree: &TokenTree) -> bool {
    match tree {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        tree => tree.to_string() == ";",
    }
}
