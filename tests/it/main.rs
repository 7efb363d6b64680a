//! Native integration tests: the whole hub in memory, on SQLite with the migrations of D1. Each module tests one topic.
//!
//! `cargo test --test it NAME` runs the tests whose path contains `NAME`, such as `replay::faults`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a panic fails a test; the lints are for code that runs in the hub"
)]

mod abort;
mod admission;
mod alarm;
mod answers;
mod attention;
mod authentication;
mod backpressure;
mod bad_input {
    mod errors;
    mod events;
    mod fields;
    mod frames;
    mod lenient;
    mod sentences;
    mod updates;
}
mod cli_sockets;
mod committed_reads;
mod completed_requests;
mod concurrency;
mod databases;
mod delivery;
mod devices;
mod distance;
mod edge;
mod events;
mod excerpts;
mod fairness;
mod faults;
mod first_message;
mod fuzz;
mod grace;
mod held_messages;
mod hibernation;
mod inbox;
mod jurisdiction;
mod keep_alives;
mod kept_requests;
mod kill;
mod large_values;
mod late_writes;
mod layers;
mod lifecycle;
mod live_text;
mod liveness;
mod local_ids;
mod lookups;
mod machines;
mod many_sessions;
mod memory;
mod write_queue;
mod merge {
    mod concurrent;
    mod faults;
    mod histories;
}
mod modes;
mod namespaces;
mod overload;
mod pages;
mod permissions;
mod push {
    mod answers;
    mod choices;
    mod notifications;
    mod presence;
    mod rotation;
    mod rounds;
    mod subscriptions;
}
mod queue;
mod quotas;
mod races;
mod replay {
    mod bounds;
    mod faults;
    mod random;
    mod reconnect;
}
mod resume;
mod retention;
mod routes;
mod rpc;
mod runner_calls;
mod served;
mod session_list {
    mod fields;
    mod limit;
    mod memory;
    mod pages;
}
mod shared_memory;
mod simulation;
mod sizes;
mod stalls;
mod status;
mod store {
    mod events;
    mod messages;
    mod migrations;
    mod removals;
    mod retry;
    mod rollback;
    mod rows;
    mod strict;
    mod watchdog;
}
mod support;
mod sweep;
mod todos;
mod upload_chunks;
mod uploads;
mod vocabulary;

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// The compiler ignores a file that no `mod` item names.
#[test]
fn every_file_with_tests_is_a_module() {
    let list = Command::new(env::current_exe().unwrap()).arg("--list").output().unwrap();
    let tests = String::from_utf8(list.stdout).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let file = path.strip_prefix(&root).unwrap().with_extension("");
            let module = file.to_str().unwrap().trim_end_matches("/mod").replace('/', "::");
            let has_tests = module != "main" && (text.contains("#[test]") || text.contains("#[tokio::test"));
            let is_compiled = tests.lines().any(|test| test.starts_with(&format!("{module}::")));
            assert!(is_compiled || !has_tests, "main.rs has no `mod` for {}", path.display());
        }
    }
}
