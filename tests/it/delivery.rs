//! An accepted user message reaches the CLI of its session once and in order, even if connections, the hub or commits fail.

use crate::support::prelude::*;

/// A fault while a user sends a message.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// The CLI is disconnected when the message arrives.
    Disconnected,
    /// The CLI reconnects and reads the missed messages while the message is being written.
    Reconnected,
    /// The hub restarts after it accepted the message, before the CLI has read it.
    Restart,
    /// The hub restarts while the message is being written, and the user sends it again.
    RestartInCommit,
    Hibernation,
}

/// A CLI that follows PROTOCOL-CLI.md "Reliable delivery".
struct Reader {
    session: String,
    cli: Cli,
    /// The handled messages as `(seq, text)`.
    handled: Vec<(u64, String)>,
}

impl Reader {
    async fn connect(world: &World, session: &str) -> Self {
        let cli = world.live_cli(session).await;
        Self { session: session.to_owned(), cli, handled: Vec::new() }
    }

    /// Reconnects and reads the missed messages. Does not read updates that arrive during the reconnect.
    async fn reconnect(&mut self, world: &World) {
        self.cli = world.cli(&self.session).await;
        loop {
            let after = self.handled.last().map_or(0, |(seq, _)| *seq);
            let page =
                world.get(&format!("/cli/sessions/{}/messages?afterSeq={after}&limit=2", self.session)).await.ok();
            for message in page["messages"].as_array().unwrap() {
                self.handle(message);
            }
            if page["hasMore"] == false {
                break;
            }
        }
    }

    /// Handles the received updates.
    async fn handle_updates(&mut self) {
        let mut last = 0;
        while let Some(update) = self.cli.try_event("update").await {
            let message = &update["body"]["message"];
            let seq = message["seq"].as_u64().unwrap();
            assert!(seq > last, "a socket received {seq} after {last}");
            last = seq;
            self.handle(message);
        }
    }

    /// Handles a message unless a message with its seq was handled before.
    fn handle(&mut self, message: &Value) {
        let seq = message["seq"].as_u64().unwrap();
        if self.handled.last().is_none_or(|(last, _)| seq > *last) {
            self.handled.push((seq, message["content"]["content"]["text"].as_str().unwrap().to_owned()));
        }
    }
}

/// Sends a user message during a fault.
async fn send_during(world: &World, reader: &mut Reader, text: &str, fault: Fault) {
    let path = format!("/api/sessions/{}/messages", reader.session);
    let body = json!({"text": text, "localId": text});
    match fault {
        Fault::None => drop(world.post(&path, &body).await.ok()),
        Fault::Disconnected => {
            reader.cli.socket.close();
            world.post(&path, &body).await.ok();
            reader.reconnect(world).await;
        }
        Fault::Reconnected => {
            world.db.hold_results(BatchKind::Writes);
            let sent = world.start("POST", &path, body.to_string());
            assert_eq!(world.held_results().await, 1, "the message is being written");
            reader.cli.socket.close();
            reader.reconnect(world).await;
            world.db.release_results();
            sent.reply().await.ok();
        }
        Fault::Restart => {
            world.post(&path, &body).await.ok();
            world.restart();
            reader.reconnect(world).await;
        }
        Fault::RestartInCommit => {
            world.db.hold_results(BatchKind::Writes);
            let sent = world.start("POST", &path, body.to_string());
            assert_eq!(world.held_results().await, 1, "the message is being written");
            world.restart();
            world.db.release_results();
            sent.abort();
            world.post(&path, &body).await.ok();
            reader.reconnect(world).await;
        }
        Fault::Hibernation => {
            world.hibernate_and_wake().await;
            world.post(&path, &body).await.ok();
        }
    }
    // Only sometimes, so that some updates are unread at the next fault.
    if text.len().is_multiple_of(2) {
        reader.handle_updates().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_accepted_message_reaches_its_cli_once_and_in_order() {
    let faults = [
        Fault::None,
        Fault::Disconnected,
        Fault::Reconnected,
        Fault::Restart,
        Fault::RestartInCommit,
        Fault::Hibernation,
    ];
    // All pairs of faults, because a fault may change the effect of the next fault.
    let pairs: Vec<Fault> = faults.iter().flat_map(|first| faults.iter().flat_map(|next| [*first, *next])).collect();
    let (world, session) = idle_session().await;
    let mut reader = Reader::connect(&world, &session).await;
    let mut expected = Vec::new();
    for (seq, fault) in (1..).zip(pairs) {
        let text = format!("{seq} {fault:?}");
        send_during(&world, &mut reader, &text, fault).await;
        expected.push((seq, text));
    }
    reader.handle_updates().await;
    assert_eq!(reader.handled, expected);
}
