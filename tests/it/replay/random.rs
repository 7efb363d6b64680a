//! Web clients that reconnect many times, with random hibernations, restarts and faults.

use crate::support::prelude::*;
use crate::support::replay::{FORMATS, id, message, replay_fixture};
use crate::support::web::event_number;

/// An xorshift generator. Its numbers are the same in every run.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A web client that reconnects many times.
struct Client {
    format: Format,
    web: Option<Web>,
    /// The id of the last event that the client received.
    last_event_id: Option<String>,
    /// At the end, the test expects every event with a greater number in `received`.
    start_number: u64,
    /// The events received after `start_number`.
    received: Vec<Value>,
    connect_count: usize,
    gap_count: usize,
}

impl Client {
    fn new(format: Format) -> Self {
        Self {
            format,
            web: None,
            last_event_id: None,
            start_number: 0,
            received: Vec::new(),
            connect_count: 0,
            gap_count: 0,
        }
    }

    async fn connect(&mut self, world: &World, web_query: &str) {
        self.web =
            Some(Web(world.open_event_stream(web_query, self.last_event_id.as_deref(), self.format).await.unwrap()));
        self.connect_count += 1;
    }

    /// Records received events. A gap discards the earlier events.
    fn receive(&mut self, events: impl Iterator<Item = Value>) {
        for event in events {
            let number = event_number(&event);
            match event["type"].as_str().unwrap() {
                "connection-changed" if event["data"]["resume"] == "gap" || self.last_event_id.is_none() => {
                    self.gap_count += usize::from(self.last_event_id.is_some());
                    self.start_number = number;
                    self.received.clear();
                }
                "connection-changed" | "heartbeat" => {}
                _ => self.received.push(event.clone()),
            }
            self.last_event_id = Some(id(&event));
        }
    }

    /// Disconnects the client. A random number of the last events is lost.
    async fn disconnect(&mut self, rng: &mut Rng) {
        let Some(mut web) = self.web.take() else { return };
        let events = web.events().await;
        web.0.close();
        let received_count = match rng.below(3) {
            0 => events.len(),
            _ => usize::try_from(rng.below(events.len() as u64 + 1)).unwrap(),
        };
        self.receive(events.into_iter().take(received_count));
    }
}

#[tokio::test(start_paused = true)]
async fn reconnecting_clients_receive_the_same_events_as_a_client_that_stays_connected() {
    let (mut connects, mut gaps) = (0, 0);
    for seed in 1..=12 {
        let (world, session, mut cli, web_query) = replay_fixture().await;
        let mut rng = Rng(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        // The socket of this client is open all the time.
        let mut connected = world.web(&web_query).await;
        let mut all_events: Vec<Value> = Vec::new();
        let mut clients: Vec<Client> = (0..4).map(|n| Client::new(FORMATS[n % 2])).collect();
        for n in 0..250 {
            match rng.below(20) {
                0 => world.hibernate_and_wake().await,
                1 => {
                    run_until_idle().await;
                    world.restart();
                }
                2 if rng.below(6) == 0 => {
                    world.db.hold_results(BatchKind::Writes);
                    cli.deliver("message", &message(&session, "unpublished")).await;
                    world.restart();
                    world.db.release_results();
                }
                3 => world.advance(rng.below(20_000)).await,
                4 => drop(world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"n"}"#).await.ok()),
                5..=12 => {
                    for m in 0..=rng.below(12) {
                        cli.emit("message", &json!({"sid": session, "message": {"n": n, "m": m}}));
                    }
                }
                13 => {
                    // The response of the database is lost once, or for all 6 attempts of the write.
                    (0..1 + 5 * rng.below(2)).for_each(|_| world.db.lose_response(retryable_error()));
                    cli.emit("message", &message(&session, "uncertain"));
                    world.exhaust_retries().await;
                }
                _ => {
                    let client = usize::try_from(rng.below(4)).unwrap();
                    let client = &mut clients[client];
                    match client.web {
                        Some(_) => client.disconnect(&mut rng).await,
                        None => client.connect(&world, &web_query).await,
                    }
                }
            }
            if !cli.socket.is_open() {
                cli = world.cli(&session).await;
            }
        }
        all_events.extend(connected.events().await);
        for client in &mut clients {
            if client.web.is_none() {
                client.connect(&world, &web_query).await;
            }
            let events = client.web.as_mut().unwrap().events().await;
            client.receive(events.into_iter());
        }
        let events: Vec<&Value> = all_events
            .iter()
            .filter(|event| event["type"] != "connection-changed" && event["type"] != "heartbeat")
            .collect();
        assert!(events.iter().map(|event| event_number(event)).is_sorted_by(|a, b| a < b), "seed {seed}");
        for (index, client) in clients.iter().enumerate() {
            let expected: Vec<&Value> =
                events.iter().copied().filter(|e| event_number(e) > client.start_number).collect();
            assert_eq!(client.received.iter().collect::<Vec<_>>(), expected, "seed {seed}, client {index}");
            let seqs: Vec<u64> = client.received.iter().filter_map(|event| event["message"]["seq"].as_u64()).collect();
            assert!(seqs.windows(2).all(|pair| pair[0] + 1 == pair[1]), "seed {seed}, client {index}: {seqs:?}");
            connects += client.connect_count;
            gaps += client.gap_count;
        }
    }
    assert!(connects > 200, "{connects} connects");
    assert_eq!(gaps, 0, "the log retains all events");
}
