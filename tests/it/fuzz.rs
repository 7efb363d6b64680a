//! The fuzz targets without a fuzzer: every body runs over its seeds, among them all inputs that fuzzing ever found.

use std::fs;
use std::path::{Path, PathBuf};

#[path = "../../fuzz/src/lib.rs"]
mod bodies;

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

/// One JSON string a line.
fn seeds(target: &str) -> Vec<String> {
    let file = fuzz_folder().join("seeds").join(format!("{target}.jsonl"));
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{target}: {line}: {error}")))
        .collect()
}

fn check(target: &str, input: &str) {
    let held = std::panic::catch_unwind(|| bodies::run(target, input));
    assert!(held.is_ok(), "{target} fails on {input:?}; why stands above");
}

#[test]
fn every_property_holds_for_every_seed_and_for_every_input_that_was_found() {
    for (target, _) in bodies::TARGETS {
        for seed in seeds(target) {
            check(target, &seed);
        }
    }
}

#[test]
fn every_property_holds_for_a_seed_that_is_cut_short_doubled_or_changed_in_a_character() {
    for (target, _) in bodies::TARGETS {
        for seed in seeds(target) {
            check(target, &seed.repeat(2));
            for (at, character) in seed.char_indices().take(100) {
                let (before, after) = (&seed[..at], &seed[at + character.len_utf8()..]);
                check(target, before);
                for other in ["", "\"", "\\", "\u{1f980}"] {
                    check(target, &format!("{before}{other}{after}"));
                }
            }
        }
    }
}

#[test]
fn every_target_has_seeds_and_a_program() {
    let manifest = fs::read_to_string(fuzz_folder().join("Cargo.toml")).unwrap();
    let programs: Vec<&str> =
        manifest.split("[[bin]]\nname = \"").skip(1).map(|bin| bin.split('"').next().unwrap()).collect();
    assert_eq!(programs, bodies::TARGETS.map(|(target, _)| target));
    let mut files: Vec<String> = fs::read_dir(fuzz_folder().join("seeds"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, bodies::TARGETS.map(|(target, _)| format!("{target}.jsonl")));
    assert!(bodies::TARGETS.iter().all(|(target, _)| !seeds(target).is_empty()));
}
