//! Runs the fuzz targets on their seeds, which include all inputs for which fuzzing found a fault.

use std::fs;
use std::path::{Path, PathBuf};

#[path = "../../fuzz/src/lib.rs"]
mod bodies;

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

/// The seeds of a target. Each line of the file is a JSON string.
fn seeds(target: &str) -> Vec<String> {
    let file = fuzz_folder().join("seeds").join(format!("{target}.jsonl"));
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{target}: {line}: {error}")))
        .collect()
}

/// Runs a target. Fails if it panics.
fn check(target: &str, input: &str) {
    let result = std::panic::catch_unwind(|| bodies::run(target, input));
    assert!(result.is_ok(), "{target} panics on {input:?}; the panic message is above");
}

#[test]
fn every_property_holds_for_every_seed() {
    for (target, _) in bodies::TARGETS {
        for seed in seeds(target) {
            check(target, &seed);
        }
    }
}

#[test]
fn every_property_holds_for_truncated_doubled_and_modified_seeds() {
    for (target, _) in bodies::TARGETS {
        for seed in seeds(target) {
            check(target, &seed.repeat(2));
            for (index, character) in seed.char_indices().take(100) {
                let (start, end) = (&seed[..index], &seed[index + character.len_utf8()..]);
                check(target, start);
                for replacement in ["", "\"", "\\", "\u{1f980}"] {
                    check(target, &format!("{start}{replacement}{end}"));
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
