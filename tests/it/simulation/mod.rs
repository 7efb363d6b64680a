//! Deterministic simulation tests. A seed determines what the clients do, which faults occur, and the order of all actions. A
//! test oracle records what clients send and receive, and fails on data that is lost, duplicated or contradictory.
//!
//! A *step* is a random operation of a client, or a fault. Between two steps the world runs random *actions*: it polls a task,
//! executes a query, or delivers a frame.
//!
//! `npm run simulate` runs more seeds, `npm run simulate -- --seed N` prints all steps of one seed. Without npm, set the
//! variables `SIM_FIRST`, `SIM_SEEDS` and `SIM_SEED` for `cargo test simulation`.

mod calls;
mod checks;
mod cli;
mod cli_events;
mod connections;
mod database;
mod large;
mod liveness;
mod log;
mod long_sessions;
mod memory;
mod object;
mod oracle;
mod push_outbox;
mod pushes;
mod random;
mod replay;
mod responses;
mod rows;
mod scheduler;
mod stalls;
mod steps;
mod updates;
mod web;
mod web_steps;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use log::{Log, truncate};
use long_sessions::has_long_sessions;
use scheduler::lock;
use world::World;

/// Not 1, so that the default seeds include one with large messages and values (`large::SEED_INTERVAL`).
const DEFAULT_FIRST: u64 = 101;
const DEFAULT_SEEDS: u64 = 300;
/// The number of seeds between two progress messages.
const PROGRESS_INTERVAL: u64 = 1_000;

/// Runs a seed. Returns the lines of its log; an error if an invariant was violated.
fn simulate(seed: u64, verbose: bool) -> Result<Vec<String>, Vec<String>> {
    let log = Arc::new(Mutex::new(Log { lines: Vec::new(), verbose }));
    let run = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(seed, Arc::clone(&log));
        if has_long_sessions(seed) {
            world.add_long_sessions();
        }
        world.add_initial_clients();
        for _ in 0..world.rng.between(30, 100) {
            world.take_random_step();
        }
        world.finish();
    }));
    let mut lines = std::mem::take(&mut lock(&log).lines);
    match run {
        Ok(()) => Ok(lines),
        Err(panic) => {
            let message =
                panic.downcast_ref::<String>().cloned().or(panic.downcast_ref::<&str>().map(|&text| text.into()));
            lines.push(format!("FAILED: {}", truncate(message.unwrap_or_default())));
            Err(lines)
        }
    }
}

/// A number in an environment variable.
fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {value:?}")))
}

fn report(seed: u64, lines: &[String]) -> String {
    format!("{}\nReplay it with: npm run simulate -- --seed {seed}\n", lines.join("\n"))
}

#[test]
fn no_data_is_lost_duplicated_or_contradictory() {
    if let Some(seed) = setting("SIM_SEED") {
        match simulate(seed, true) {
            Ok(lines) => return println!("{}\nSeed {seed} passed.", lines.join("\n")),
            Err(lines) => panic!("Seed {seed} failed.\n{}", report(seed, &lines)),
        }
    }
    let first = setting("SIM_FIRST").unwrap_or(DEFAULT_FIRST);
    let end = first + setting("SIM_SEEDS").unwrap_or(DEFAULT_SEEDS);
    println!("Seeds {first} to {}.", end - 1);
    let next_seed = AtomicU64::new(first);
    let max_failures = setting("SIM_FAILURES").unwrap_or(1);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, std::num::NonZero::get) {
            scope.spawn(|| {
                loop {
                    let seed = next_seed.fetch_add(1, Ordering::Relaxed);
                    if seed > first && (seed - first).is_multiple_of(PROGRESS_INTERVAL) {
                        println!("{} started, {} failed.", seed - first, lock(&failed).len());
                    }
                    if seed >= end || lock(&failed).len() as u64 >= max_failures {
                        return;
                    }
                    if let Err(lines) = simulate(seed, false) {
                        lock(&failed).push((seed, lines));
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap();
    failed.sort();
    if let Some((seed, lines)) = failed.first() {
        let summaries: Vec<String> =
            failed.iter().map(|(seed, lines)| format!("{seed}: {}", lines.last().unwrap())).collect();
        panic!("Seed {seed} failed.\n{}\nAll failures:\n{}", report(*seed, lines), summaries.join("\n"));
    }
}

#[test]
fn a_seed_determines_the_run() {
    for seed in 1..=20 {
        let runs = [(); 2].map(|()| simulate(seed, true).unwrap_or_else(|lines| panic!("{}", report(seed, &lines))));
        let difference = runs[0].iter().zip(&runs[1]).find(|(one, other)| one != other);
        assert!(
            difference.is_none() && runs[0].len() == runs[1].len(),
            "two runs of seed {seed} differ: {difference:#?}"
        );
    }
}
