//! The module structure: which modules a module uses, and what a module may contain. The tests read the source as text, so
//! that they cover `platform`, which compiles for wasm only.

mod calls;
mod source;

use calls::{ambiguous_methods, calls};
use source::{Source, Uses, text_at, uses};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

/// Each module with the modules that it uses, which must be below it. To allow a use, add it to the row. Remove a use that no longer
/// exists.
const USES: &str = "
    auth              -> model
    http              -> auth hub hub::access hub::core::error hub::core::peers hub::core::ports hub::core::sessions hub::machines hub::namespace hub::sessions hub::workspace limits memory_budget model push store wire
    hub               -> hub::access hub::core hub::core::ports limits memory_budget store
    hub::access       -> auth hub::core hub::core::error hub::core::ports hub::core::push memory_budget model push store
    hub::calls        -> hub hub::core::error hub::core::peers hub::core::ports hub::turn limits metrics model
    hub::core         -> auth hub::core::error hub::core::events hub::core::memory hub::core::namespace hub::core::peers hub::core::ports hub::core::push hub::core::sessions limits log memory_budget metrics model push
    hub::core::error  -> hub::core::peers hub::core::ports limits model push store wire
    hub::core::events -> hub::core::peers limits model store
    hub::core::local_ids -> limits store
    hub::core::memory -> memory_budget
    hub::core::namespace -> hub::core::error hub::core::ports memory_budget model
    hub::core::peers  -> auth hub::core::ports limits model wire
    hub::core::ports  -> log model
    hub::core::push   -> hub::core::ports model push store
    hub::core::sessions -> hub::core::error hub::core::local_ids hub::core::memory hub::core::peers hub::core::ports limits model store wire
    hub::devices      -> auth hub hub::core::error hub::core::peers hub::core::ports store
    hub::entry        -> hub hub::access hub::core hub::core::error hub::core::events hub::core::memory hub::core::namespace hub::core::peers hub::core::ports hub::core::push hub::core::sessions hub::sessions limits log memory_budget metrics model store
    hub::events       -> hub hub::core hub::core::error hub::core::peers hub::core::ports hub::turn limits model store
    hub::inbound      -> auth hub hub::core hub::core::error hub::core::peers hub::core::ports hub::sessions hub::turn limits log model wire
    hub::machines     -> hub hub::core hub::core::error hub::core::peers hub::core::ports hub::core::sessions hub::turn hub::write limits memory_budget model store wire
    hub::namespace    -> hub hub::core::error hub::core::namespace hub::core::ports model store
    hub::push         -> auth hub hub::core hub::core::error hub::core::ports hub::core::push hub::sessions hub::turn log metrics model push store
    hub::sessions     -> hub hub::core hub::core::error hub::core::local_ids hub::core::namespace hub::core::peers hub::core::ports hub::core::sessions hub::machines hub::turn hub::write limits log memory_budget model store wire
    hub::status       -> hub hub::core::error log metrics model store
    hub::turn         -> hub hub::core hub::core::error hub::core::events hub::core::namespace hub::core::peers hub::core::ports hub::core::push limits metrics model push store wire
    hub::workspace    -> hub hub::core::error hub::core::peers hub::core::ports limits memory_budget model wire
    hub::write        -> hub hub::core hub::core::error hub::core::local_ids hub::core::ports hub::core::sessions hub::turn limits log memory_budget metrics model store wire
    limits            ->
    log               -> model
    memory_budget     -> limits
    metrics           ->
    model             -> limits
    platform          -> auth http hub hub::core hub::core::error hub::core::namespace hub::core::peers hub::core::ports hub::entry limits log memory_budget model push store wire
    push              -> model
    store             -> limits log memory_budget model
    wire              -> limits model
";

/// The modules below and above the floors of the hub, from bottom to top. `src/hub/mod.rs` lists the floors.
const BELOW_THE_HUB: &str = "metrics limits memory_budget model log wire auth push store";
const ABOVE_THE_HUB: &str = "http platform";

/// The files of a topic that are on another floor than the rest of its folder: floor, folder, files.
const FILE_GROUPS: &[(&str, &str, &str)] = &[
    ("hub::core::ports", "hub/core", "ports storage_keys"),
    ("hub::core::error", "hub/core", "effect error"),
    ("hub::core::local_ids", "hub/core", "local_ids"),
    ("hub::core::memory", "hub/core", "memory"),
    ("hub::turn", "hub/events", "log publish"),
    ("hub::turn", "hub/push", "notify"),
    ("hub::calls", "hub", "calls"),
    ("hub::status", "hub", "status"),
    ("hub::access", "hub", "access"),
    ("hub::access", "hub/push", "subscriptions"),
    ("hub::devices", "hub", "devices"),
    ("hub::entry", "hub", "alarm wake"),
];

const MAX_LINES: usize = 450;

/// All files of `src`.
static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(read_sources);

#[test]
fn modules_use_only_the_modules_in_their_row() {
    assert_none(layer_violations(&uses(&SOURCES), USES, &modules_from_bottom()));
}

#[test]
fn every_file_in_a_group_exists() {
    for (module, folder, names) in FILE_GROUPS {
        for file in names.split(' ').map(|name| format!("{folder}/{name}.rs")) {
            assert!(SOURCES.iter().any(|source| source.file == file), "`{module}` lists src/{file}, which is missing.");
        }
    }
}

#[test]
fn files_do_not_use_each_other_in_a_cycle() {
    assert_none(cycles(&uses(&SOURCES)));
}

/// A method may be in another file than its type. So imports do not show which files a method calls.
#[test]
fn methods_of_the_hub_call_only_methods_of_files_on_the_floors_below() {
    assert_none(upward_calls(&calls(&SOURCES), &modules_from_bottom()));
}

#[test]
fn files_of_the_hub_do_not_call_each_other_in_a_cycle() {
    assert_none(cycles(&calls(&SOURCES)));
}

#[test]
fn the_name_of_a_method_of_the_hub_is_unique() {
    assert_none(ambiguous_methods(&SOURCES));
}

#[test]
fn the_hub_contains_no_sql() {
    assert_none(SOURCES.iter().filter(|source| source.file.starts_with("hub/")).flat_map(sql_statements));
}

/// The folders `push` are allowed, because their code interprets the statuses of push services.
#[test]
fn only_http_chooses_statuses() {
    let folders = ["http/", "push/", "hub/core/push/", "hub/push/"];
    let others = SOURCES.iter().filter(|source| !folders.iter().any(|folder| source.file.starts_with(folder)));
    assert_none(others.flat_map(statuses));
}

#[test]
fn files_are_short() {
    let long = SOURCES.iter().filter(|source| source.line_count > MAX_LINES);
    assert_none(long.map(|s| format!("src/{} has {} lines, the limit is {MAX_LINES}.", s.file, s.line_count)));
}

fn assert_none(violations: impl IntoIterator<Item = String>) {
    let violations: Vec<String> = violations.into_iter().collect();
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

fn read_sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut sources, mut folders) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let file = path.strip_prefix(&root).unwrap().to_str().unwrap();
                sources.push(Source::parse(file, &fs::read_to_string(&path).unwrap()));
            }
        }
    }
    sources
}

/// The module of a file.
fn module(file: &str) -> String {
    let path = file.trim_end_matches(".rs");
    let (folder, name) = path.rsplit_once('/').unwrap_or((path, ""));
    let is_in = |(_, group_folder, files): &&(&str, &str, &str)| {
        *group_folder == folder && files.split(' ').any(|file| file == name)
    };
    let group = FILE_GROUPS.iter().find(is_in).map(|(module, ..)| (*module).to_owned());
    group.unwrap_or_else(|| folder.replace('/', "::"))
}

/// The order of the modules: the floors of the hub are the list items of the documentation in `src/hub/mod.rs`.
fn modules_from_bottom() -> Vec<String> {
    let documentation = include_str!("../../src/hub/mod.rs");
    let floors = documentation.lines().filter_map(|line| Some(line.strip_prefix("//! - `")?.split_once('`')?.0));
    let floors = floors.map(|floor| if floor == "mod" { "hub".to_owned() } else { format!("hub::{floor}") });
    let names = |modules: &'static str| modules.split(' ').map(str::to_owned);
    names(BELOW_THE_HUB).chain(floors).chain(names(ABOVE_THE_HUB)).collect()
}

/// Returns uses that no row names, uses in rows that do not exist or point upward, and rows that differ from the modules in `order`.
fn layer_violations(uses: &Uses, rows: &str, order: &[String]) -> Vec<String> {
    let rows = rows.lines().filter_map(|row| row.split_once("->"));
    let rows: BTreeMap<&str, Vec<&str>> =
        rows.map(|(module, uses)| (module.trim(), uses.split_whitespace().collect())).collect();
    let position = |module: &str| order.iter().position(|name| name == module);
    let (mut violations, mut existing_uses) = (Vec::new(), BTreeSet::new());
    for (file, used) in uses {
        for (used_file, line) in used {
            let (from, to) = (module(file), module(used_file));
            let is_allowed = rows.get(from.as_str()).is_some_and(|uses| uses.contains(&to.as_str()));
            if from != to && !is_allowed {
                violations.push(format!("src/{file}:{line} uses src/{used_file}: `{from}` may not use `{to}`."));
            }
            existing_uses.insert((from, to));
        }
    }
    let missing = order.iter().filter(|module| !rows.contains_key(module.as_str()));
    violations.extend(missing.map(|module| format!("`{module}` has no row.")));
    for (module, uses) in &rows {
        if position(module).is_none() {
            violations.push(format!("`{module}` has a row, but no place in the order of the modules."));
        }
        for used in uses {
            if !existing_uses.contains(&((*module).to_owned(), (*used).to_owned())) {
                violations.push(format!("No file of `{module}` uses `{used}`: remove it from the row."));
            }
            if position(used) >= position(module) {
                violations.push(format!("The row of `{module}` names `{used}`, which is not below it."));
            }
        }
    }
    violations
}

/// Returns calls from a file to a file whose module is higher.
fn upward_calls(calls: &Uses, order: &[String]) -> Vec<String> {
    let position = |file: &str| order.iter().position(|name| *name == module(file));
    let mut upward = Vec::new();
    for (file, called) in calls {
        for (called_file, line) in called.iter().filter(|(called_file, _)| position(called_file) > position(file)) {
            upward.push(format!("src/{file}:{line} calls a method of src/{called_file}, which is above it."));
        }
    }
    upward
}

fn cycles(uses: &Uses) -> Vec<String> {
    let (mut done, mut cycles) = (BTreeSet::new(), Vec::new());
    uses.keys().for_each(|file| search_cycles(uses, file, &mut Vec::new(), &mut done, &mut cycles));
    cycles
}

/// Searches for cycles, depth first. The imports of the files in `path` lead to `file`. The files in `done` have been searched.
fn search_cycles<'u>(
    uses: &'u Uses,
    file: &'u String,
    path: &mut Vec<&'u String>,
    done: &mut BTreeSet<&'u String>,
    cycles: &mut Vec<String>,
) {
    if let Some(start) = path.iter().position(|on_path| *on_path == file) {
        let next = path[start..].iter().skip(1).chain([&file]);
        let steps = path[start..].iter().zip(next);
        let steps = steps.map(|(from, to)| format!("src/{from}:{} uses src/{to}", uses[*from][*to]));
        cycles.push(steps.collect::<Vec<_>>().join(", "));
    } else if !done.contains(file) {
        path.push(file);
        uses[file].keys().for_each(|used| search_cycles(uses, used, path, done, cycles));
        path.pop();
        done.insert(file);
    }
}

fn sql_statements(source: &Source) -> Vec<String> {
    let is_sql = |text: &str| {
        let keywords = ["SELECT ", "INSERT INTO ", "INSERT OR ", "UPDATE ", "DELETE FROM "];
        text.starts_with('"') && keywords.iter().any(|keyword| text.contains(keyword))
    };
    let literals = source.tokens.iter().filter(|token| is_sql(&token.text));
    literals.map(|token| format!("src/{}:{} contains SQL: {}.", source.file, token.line, token.text)).collect()
}

/// Returns uses of `StatusCode`, and numbers at most three tokens after a word that contains `status`.
fn statuses(source: &Source) -> Vec<String> {
    let is_status = |text: &str| text.parse().is_ok_and(|number: u16| (100..600).contains(&number));
    let mut violations = Vec::new();
    for (index, token) in source.tokens.iter().enumerate() {
        let is_word = token.text.to_lowercase().contains("status") && !token.text.starts_with('"');
        let has_number = is_word && (1..=3).any(|offset| is_status(text_at(&source.tokens, index + offset)));
        if token.text == "StatusCode" || has_number {
            violations.push(format!("src/{}:{} chooses a status; only `http` may.", source.file, token.line));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(files: &[(&str, &str)]) -> Vec<Source> {
        files.iter().map(|(file, text)| Source::parse(file, text)).collect()
    }

    #[test]
    fn an_upward_use_and_an_unused_edge_are_reported() {
        let sources = parse(&[
            ("model/event.rs", "use crate::store;"),
            ("store/mod.rs", "pub mod sql;\nfn f() -> crate::model::event::Event {}"),
            ("store/sql.rs", ""),
        ]);
        let uses = uses(&sources);
        let order = ["model", "store", "http"].map(str::to_owned);
        assert_eq!(
            layer_violations(&uses, "model -> \nstore -> model\nhttp -> store", &order),
            [
                "src/model/event.rs:1 uses src/store/mod.rs: `model` may not use `store`.",
                "No file of `http` uses `store`: remove it from the row.",
            ]
        );
        assert_eq!(
            layer_violations(&uses, "model -> store\nstore -> model\nlog ->", &order),
            [
                "`http` has no row.",
                "`log` has a row, but no place in the order of the modules.",
                "The row of `model` names `store`, which is not below it.",
            ]
        );
    }

    #[test]
    fn a_cycle_is_reported_with_its_lines() {
        let sources = parse(&[
            ("hub/mod.rs", "mod a;\nmod b;\nmod c;"),
            ("hub/a.rs", "use std::fmt;\nuse super::b::{self, B as Other};"),
            ("hub/b.rs", "use super::c::C;"),
            ("hub/c.rs", "// use super::b;\n\nuse crate::hub::{\n    a::A,\n    X,\n};"),
        ]);
        assert_eq!(
            cycles(&uses(&sources)),
            ["src/hub/a.rs:2 uses src/hub/b.rs, src/hub/b.rs:1 uses src/hub/c.rs, src/hub/c.rs:4 uses src/hub/a.rs"]
        );
    }

    #[test]
    fn paths_in_code_are_uses_and_those_in_tests_comments_texts_and_visibilities_are_not() {
        let sources = parse(&[
            ("hub/mod.rs", "use state::cache;\nfn f(c: char) { if c == '\"' { cache::Cache::new(); state::f() } }"),
            ("hub/state/mod.rs", "pub mod cache;"),
            (
                "hub/state/cache.rs",
                r##"/* use crate::a; */ const TEXT: &[&str] = &["crate::hub::x", r#""crate::hub::x"#];
                pub(in crate::hub) fn f<'a>() {}
                #[cfg(test)]
                mod tests { use crate::hub::x; }
                #[cfg(test)]
                use crate::hub::x;
                use super::super::y;"##,
            ),
            ("hub/x.rs", ""),
            ("hub/y.rs", ""),
        ]);
        let uses = uses(&sources);
        let files = |file: &str| uses[file].keys().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(files("hub/mod.rs"), ["hub/state/cache.rs", "hub/state/mod.rs"]);
        assert_eq!(files("hub/state/cache.rs"), ["hub/y.rs"]);
    }

    #[test]
    fn sql_and_statuses_are_reported() {
        let source = Source::parse("hub/a.rs", "const A: &str = \"x SELECT 1\";\nlet status = 404;\nStatusCode::OK");
        assert_eq!(sql_statements(&source), ["src/hub/a.rs:1 contains SQL: \"x SELECT 1\"."]);
        let status = |line: usize| format!("src/hub/a.rs:{line} chooses a status; only `http` may.");
        assert_eq!(statuses(&source), [status(2), status(3)]);
        assert_eq!(statuses(&Source::parse("hub/a.rs", "// status 404\nstatus: u16, 404")), [] as [String; 0]);
    }
}
