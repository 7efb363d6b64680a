//! The hub under a deterministic scheduler: a seed makes a world of clients, what they do, what goes wrong, and in which
//! order everything happens. What must hold is checked all the while.
//!
//! `npm run simulate` runs more worlds, and `npm run simulate -- --seed N` one, showing everything that happens in it.
//! Without npm: `SIM_FIRST`, `SIM_SEEDS` and `SIM_SEED` in the environment of `cargo test simulation`.

mod calls;
mod checks;
mod cli;
mod cli_hears;
mod database;
mod dice;
mod large;
mod ledger;
mod object;
mod pushes;
mod replay;
mod replies;
mod scheduler;
mod steps;
mod web;
mod web_steps;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use scheduler::lock;
use world::{Log, World, short};

/// How many seeds a run of all tests takes.
const SEEDS: u64 = 2_000;
/// After how many seeds a long run says how far it is.
const STRIDE: u64 = 1_000;

/// Runs a seed; answers what was noted of it.
fn simulate(seed: u64, whole: bool) -> Result<Vec<String>, Vec<String>> {
    let log = Arc::new(Mutex::new(Log { lines: Vec::new(), whole }));
    let run = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(seed, Arc::clone(&log));
        world.people();
        for _ in 0..world.dice.between(30, 100) {
            world.step_on();
        }
        world.finish();
    }));
    let mut lines = std::mem::take(&mut lock(&log).lines);
    match run {
        Ok(()) => Ok(lines),
        Err(why) => {
            let why = why.downcast_ref::<String>().cloned().or(why.downcast_ref::<&str>().map(|&why| why.into()));
            lines.push(format!("FAILED: {}", short(why.unwrap_or_default())));
            Err(lines)
        }
    }
}

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {value:?}")))
}

fn report(seed: u64, lines: &[String]) -> String {
    format!("{}\nReplay it with: npm run simulate -- --seed {seed}\n", lines.join("\n"))
}

#[test]
fn whatever_happens_in_whatever_order_nothing_is_lost_doubled_or_left_behind() {
    if let Some(seed) = setting("SIM_SEED") {
        match simulate(seed, true) {
            Ok(lines) => return println!("{}\nSeed {seed} passed.", lines.join("\n")),
            Err(lines) => panic!("Seed {seed} failed.\n{}", report(seed, &lines)),
        }
    }
    let first = setting("SIM_FIRST").unwrap_or(1);
    let end = first + setting("SIM_SEEDS").unwrap_or(SEEDS);
    println!("Seeds {first} to {}.", end - 1);
    let next = AtomicU64::new(first);
    // How many seeds may fail before no more are tried.
    let wanted = setting("SIM_FAILURES").unwrap_or(1);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, std::num::NonZero::get) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > first && (seed - first).is_multiple_of(STRIDE) {
                        println!("{} begun, {} failed.", seed - first, lock(&failed).len());
                    }
                    if seed >= end || lock(&failed).len() as u64 >= wanted {
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
        let all: Vec<String> =
            failed.iter().map(|(seed, lines)| format!("{seed}: {}", lines.last().unwrap())).collect();
        panic!("Seed {seed} failed.\n{}\nAll that failed:\n{}", report(*seed, lines), all.join("\n"));
    }
}

#[test]
fn a_seed_is_always_the_same_run() {
    for seed in 1..=20 {
        let runs = [(); 2].map(|()| simulate(seed, true).unwrap_or_else(|lines| panic!("{}", report(seed, &lines))));
        let different = runs[0].iter().zip(&runs[1]).find(|(one, other)| one != other);
        assert!(different.is_none() && runs[0].len() == runs[1].len(), "seed {seed} is two runs: {different:#?}");
    }
}
