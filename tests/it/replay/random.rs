//! Web clients that reconnect many times, with random sleeps, restarts and faults.

use crate::support::replay::{FORMATS, exhaust_retries, id, message, replay_fixture};
use crate::support::sqlite::{BatchKind, retryable_error};
use crate::support::web::{Web, number};
use crate::support::{World, run_until_idle};
use serde_json::{Value, json};
use session_gateway_hub::hub::peers::subscription::Format;

/// A xorshift generator: the numbers are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// A web client that reconnects many times.
struct Client {
    format: Format,
    web: Option<Web>,
    /// The id of the last event that it received.
    last: Option<String>,
    /// It has received all events after this number.
    since: u64,
    received: Vec<Value>,
    connects: usize,
    gaps: usize,
}

impl Client {
    fn new(format: Format) -> Self {
        Self { format, web: None, last: None, since: 0, received: Vec::new(), connects: 0, gaps: 0 }
    }

    async fn connect(&mut self, world: &World, query: &str) {
        self.web = Some(Web(world.try_subscribe(query, self.last.as_deref(), self.format).await.unwrap()));
        self.connects += 1;
    }

    /// Receives events.
    fn receive(&mut self, events: impl Iterator<Item = Value>) {
        for event in events {
            let number = number(&event);
            match event["type"].as_str().unwrap() {
                "connection-changed" if event["data"]["resume"] == "gap" || self.last.is_none() => {
                    self.gaps += usize::from(self.last.is_some());
                    self.since = number;
                    self.received.clear();
                }
                "connection-changed" | "heartbeat" => {}
                _ => self.received.push(event.clone()),
            }
            self.last = Some(id(&event));
        }
    }

    /// Disconnects it; a random number of the last events is lost.
    async fn disconnect(&mut self, dice: &mut Dice) {
        let Some(mut web) = self.web.take() else { return };
        let events = web.events().await;
        web.0.close();
        let arrived = match dice.roll(3) {
            0 => events.len(),
            _ => usize::try_from(dice.roll(events.len() as u64 + 1)).unwrap(),
        };
        self.receive(events.into_iter().take(arrived));
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reconnects_often_receives_the_same_events_as_one_that_stays() {
    let (mut connects, mut gaps) = (0, 0);
    for seed in 1..=12 {
        let (world, session, mut cli, query) = replay_fixture().await;
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        // Its socket is open all the time.
        let mut witness = world.web(&query).await;
        let mut witnessed: Vec<Value> = Vec::new();
        let mut clients: Vec<Client> = (0..4).map(|n| Client::new(FORMATS[n % 2])).collect();
        for n in 0..250 {
            match dice.roll(20) {
                0 => world.hibernate_and_wake().await,
                1 => {
                    run_until_idle().await;
                    world.restart();
                }
                2 if dice.roll(6) == 0 => {
                    world.db.hold(BatchKind::Writes);
                    cli.emit("message", &message(&session, "unpublished"));
                    run_until_idle().await;
                    world.restart();
                    world.db.release();
                }
                3 => world.advance(dice.roll(20_000)).await,
                4 => drop(world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"n"}"#).await.ok()),
                5..=12 => {
                    for m in 0..=dice.roll(12) {
                        cli.emit("message", &json!({"sid": session, "message": {"n": n, "m": m}}));
                    }
                }
                13 => {
                    // Either one response is lost, or those to all attempts.
                    (0..1 + 5 * dice.roll(2)).for_each(|_| world.db.lose_response(retryable_error()));
                    cli.emit("message", &message(&session, "uncertain"));
                    exhaust_retries(&world).await;
                }
                _ => {
                    let client = usize::try_from(dice.roll(4)).unwrap();
                    let client = &mut clients[client];
                    match client.web {
                        Some(_) => client.disconnect(&mut dice).await,
                        None => client.connect(&world, &query).await,
                    }
                }
            }
            if !cli.socket.is_open() {
                cli = world.cli(&session).await;
            }
        }
        witnessed.extend(witness.events().await);
        for client in &mut clients {
            if client.web.is_none() {
                client.connect(&world, &query).await;
            }
            let events = client.web.as_mut().unwrap().events().await;
            client.receive(events.into_iter());
        }
        let events: Vec<&Value> = witnessed
            .iter()
            .filter(|event| event["type"] != "connection-changed" && event["type"] != "heartbeat")
            .collect();
        assert!(events.iter().map(|event| number(event)).is_sorted_by(|a, b| a < b), "seed {seed}");
        for (at, client) in clients.iter().enumerate() {
            let expected: Vec<&Value> = events.iter().copied().filter(|e| number(e) > client.since).collect();
            assert_eq!(client.received.iter().collect::<Vec<_>>(), expected, "seed {seed}, client {at}");
            let seqs: Vec<u64> = client.received.iter().filter_map(|event| event["message"]["seq"].as_u64()).collect();
            assert!(seqs.windows(2).all(|pair| pair[0] + 1 == pair[1]), "seed {seed}, client {at}: {seqs:?}");
            connects += client.connects;
            gaps += client.gaps;
        }
    }
    assert!(connects > 200, "{connects} connects");
    assert_eq!(gaps, 0, "the log retains all events");
}
