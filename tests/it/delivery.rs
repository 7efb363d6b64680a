//! A user message that was accepted reaches the CLI of its session once and in its place, whatever breaks in between.

use crate::support::cli::Cli;
use crate::support::sqlite::On;
use crate::support::{World, quiet};
use serde_json::{Value, json};

/// What happens to a CLI while a user writes.
#[derive(Clone, Copy, Debug)]
enum Mishap {
    Nothing,
    /// The socket is gone when the message comes.
    Gone,
    /// The socket goes, and another one comes and reads what it missed, while the message is being written.
    Replaced,
    /// The hub is torn down after the message was accepted, before the CLI has read it.
    Restart,
    /// The hub is torn down while the message is being written, and the user sends it again.
    RestartInCommit,
    Sleep,
}

use Mishap::{Gone, Nothing, Replaced, Restart, RestartInCommit, Sleep};

/// A CLI that keeps the rules of docs/PROTOCOL.md, "Reliable delivery".
struct Reader {
    session: String,
    cli: Cli,
    /// What it handled, as `(seq, text)`.
    handled: Vec<(u64, String)>,
}

impl Reader {
    async fn of(world: &World, session: &str) -> Self {
        let cli = world.live_cli(session).await;
        Self { session: session.to_owned(), cli, handled: Vec::new() }
    }

    /// Connects anew and reads what it missed; what comes by itself meanwhile waits.
    async fn come_back(&mut self, world: &World) {
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

    /// Takes what came by itself.
    async fn listen(&mut self) {
        let mut last = 0;
        while let Some(update) = self.cli.heard_event("update").await {
            let message = &update["body"]["message"];
            let seq = message["seq"].as_u64().unwrap();
            assert!(seq > last, "one socket hears of {seq} after {last}");
            last = seq;
            self.handle(message);
        }
    }

    /// A seq that it has is skipped; that it passes over none is for the test to say.
    fn handle(&mut self, message: &Value) {
        let seq = message["seq"].as_u64().unwrap();
        if self.handled.last().is_none_or(|(last, _)| seq > *last) {
            self.handled.push((seq, message["content"]["content"]["text"].as_str().unwrap().to_owned()));
        }
    }
}

/// Writes a message while a mishap takes its course.
async fn write(world: &World, reader: &mut Reader, text: &str, mishap: Mishap) {
    let path = format!("/api/sessions/{}/messages", reader.session);
    let body = json!({"text": text, "localId": text});
    match mishap {
        Nothing => drop(world.post(&path, &body).await.ok()),
        Gone => {
            reader.cli.socket.close();
            world.post(&path, &body).await.ok();
            reader.come_back(world).await;
        }
        Replaced => {
            world.db.hold(On::Writes);
            let sent = world.start("POST", &path, body.to_string());
            quiet().await;
            assert_eq!(world.db.held(), 1, "the message is being written");
            reader.cli.socket.close();
            reader.come_back(world).await;
            world.db.release();
            sent.reply().await.ok();
        }
        Restart => {
            world.post(&path, &body).await.ok();
            world.restart();
            reader.come_back(world).await;
        }
        RestartInCommit => {
            world.db.hold(On::Writes);
            let sent = world.start("POST", &path, body.to_string());
            quiet().await;
            assert_eq!(world.db.held(), 1, "the message is being written");
            world.restart();
            world.db.release();
            sent.cut_off();
            world.post(&path, &body).await.ok();
            reader.come_back(world).await;
        }
        Sleep => {
            world.sleep_and_wake().await;
            world.post(&path, &body).await.ok();
        }
    }
    // Not always: some messages are still unread when the next thing happens.
    if text.len().is_multiple_of(2) {
        reader.listen().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_accepted_message_reaches_its_cli_once_and_in_its_place_whatever_breaks() {
    let mishaps = [Nothing, Gone, Replaced, Restart, RestartInCommit, Sleep];
    // Each after each, as what happened before may leave something behind.
    let all: Vec<Mishap> = mishaps.iter().flat_map(|first| mishaps.iter().flat_map(|next| [*first, *next])).collect();
    let world = World::new();
    let session = world.session("/code").await;
    let mut reader = Reader::of(&world, &session).await;
    let mut expected = Vec::new();
    for (at, mishap) in (1..).zip(all) {
        let text = format!("{at} {mishap:?}");
        write(&world, &mut reader, &text, mishap).await;
        expected.push((at, text));
    }
    reader.listen().await;
    assert_eq!(reader.handled, expected);
}
