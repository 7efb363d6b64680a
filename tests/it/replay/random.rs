//! Web clients that are cut off again and again, while sleeps, restarts and faults come at random.

use crate::support::replay::{FORMATS, exhaust, id, live, message, passing};
use crate::support::sqlite::On;
use crate::support::web::{Web, number};
use crate::support::{World, quiet};
use serde_json::{Value, json};
use session_gateway_hub::hub::peers::subscription::Format;

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// A web client that is cut off again and again.
struct Wanderer {
    format: Format,
    web: Option<Web>,
    /// The id of the last event that arrived; none before the first.
    last: Option<String>,
    /// After which number it has heard everything, and what it heard.
    since: u64,
    heard: Vec<Value>,
    returns: usize,
    gaps: usize,
}

impl Wanderer {
    fn new(format: Format) -> Self {
        Self { format, web: None, last: None, since: 0, heard: Vec::new(), returns: 0, gaps: 0 }
    }

    async fn connect(&mut self, world: &World, query: &str) {
        self.web = Some(Web(world.try_subscribe(query, self.last.as_deref(), self.format).await.unwrap()));
        self.returns += 1;
    }

    /// Takes the first of the events that have come since.
    fn take(&mut self, events: impl Iterator<Item = Value>) {
        for event in events {
            let number = number(&event);
            match event["type"].as_str().unwrap() {
                "connection-changed" if event["data"]["resume"] == "gap" || self.last.is_none() => {
                    self.gaps += usize::from(self.last.is_some());
                    self.since = number;
                    self.heard.clear();
                }
                "connection-changed" | "heartbeat" => {}
                _ => self.heard.push(event.clone()),
            }
            self.last = Some(id(&event));
        }
    }

    /// It is cut off, and what came last has not reached it.
    async fn cut_off(&mut self, dice: &mut Dice) {
        let Some(mut web) = self.web.take() else { return };
        let events = web.events().await;
        web.0.close();
        let arrived = match dice.roll(3) {
            0 => events.len(),
            _ => usize::try_from(dice.roll(events.len() as u64 + 1)).unwrap(),
        };
        self.take(events.into_iter().take(arrived));
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_back_again_and_again_under_load_hears_what_the_others_hear() {
    let (mut returns, mut gaps) = (0, 0);
    for seed in 1..=12 {
        let (world, session, mut cli, query) = live().await;
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        // It is always there: its socket survives what happens to the hub.
        let mut witness = world.web(&query).await;
        let mut witnessed: Vec<Value> = Vec::new();
        let mut wanderers: Vec<Wanderer> = (0..4).map(|n| Wanderer::new(FORMATS[n % 2])).collect();
        for n in 0..250 {
            match dice.roll(20) {
                0 => world.sleep_and_wake().await,
                1 => {
                    quiet().await;
                    world.restart();
                }
                2 if dice.roll(6) == 0 => {
                    world.db.hold(On::Writes);
                    cli.emit("message", &message(&session, "untold"));
                    quiet().await;
                    world.restart();
                    world.db.release();
                }
                3 => world.pass(dice.roll(20_000)).await,
                4 => drop(world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"n"}"#).await.ok()),
                5..=12 => {
                    for m in 0..=dice.roll(12) {
                        cli.emit("message", &json!({"sid": session, "message": {"n": n, "m": m}}));
                    }
                }
                13 => {
                    // One answer is lost, or all of them.
                    (0..1 + 5 * dice.roll(2)).for_each(|_| world.db.lose_answer(passing()));
                    cli.emit("message", &message(&session, "of which nobody knows"));
                    exhaust(&world).await;
                }
                _ => {
                    let wanderer = usize::try_from(dice.roll(4)).unwrap();
                    let wanderer = &mut wanderers[wanderer];
                    match wanderer.web {
                        Some(_) => wanderer.cut_off(&mut dice).await,
                        None => wanderer.connect(&world, &query).await,
                    }
                }
            }
            if !cli.socket.is_open() {
                cli = world.cli(&session).await;
            }
        }
        witnessed.extend(witness.events().await);
        for wanderer in &mut wanderers {
            if wanderer.web.is_none() {
                wanderer.connect(&world, &query).await;
            }
            let events = wanderer.web.as_mut().unwrap().events().await;
            wanderer.take(events.into_iter());
        }
        let events: Vec<&Value> = witnessed
            .iter()
            .filter(|event| event["type"] != "connection-changed" && event["type"] != "heartbeat")
            .collect();
        assert!(events.iter().map(|event| number(event)).is_sorted_by(|a, b| a < b), "seed {seed}");
        for (at, wanderer) in wanderers.iter().enumerate() {
            let expected: Vec<&Value> = events.iter().copied().filter(|e| number(e) > wanderer.since).collect();
            assert_eq!(wanderer.heard.iter().collect::<Vec<_>>(), expected, "seed {seed}, client {at}");
            let seqs: Vec<u64> = wanderer.heard.iter().filter_map(|event| event["message"]["seq"].as_u64()).collect();
            assert!(seqs.windows(2).all(|pair| pair[0] + 1 == pair[1]), "seed {seed}, client {at}: {seqs:?}");
            returns += wanderer.returns;
            gaps += wanderer.gaps;
        }
    }
    assert!(returns > 200, "{returns} returns");
    assert_eq!(gaps, 0, "all of it is held");
}
