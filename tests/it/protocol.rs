//! The frames that docs/PROTOCOL.md shows go over the wire as they stand there.

use crate::support::World;
use crate::support::socket::Socket;
use serde_json::json;

/// A section of the document, up to the next one of its rank.
fn section(heading: &str) -> &'static str {
    let text = include_str!("../../docs/PROTOCOL.md");
    let (_, after) = text.split_once(&format!("\n## {heading}\n")).expect(heading);
    after.split("\n## ").next().unwrap()
}

/// Whether a frame is what the document shows, in which `…` stands for any word.
fn is_shown(frame: &str, shown: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = frame.strip_prefix(parts.next().unwrap()) else { return false };
    for part in parts {
        let word = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
        let Some(after) = rest[word..].strip_prefix(part) else { return false };
        rest = after;
    }
    rest.is_empty()
}

async fn receive(socket: &mut Socket, shown: &str) -> String {
    let heard = socket.next_text().await;
    assert!(is_shown(&heard, shown), "the document shows {shown}, but the hub says {heard}");
    heard
}

#[tokio::test(start_paused = true)]
async fn the_conversation_of_a_cli_goes_as_the_document_shows_it() {
    let world = World::new();
    let session = world.create_session("/home/ada/project").await;
    let mut cli = world.open_cli(false);
    let mut call = None;
    let mut ack = String::new();
    let lines: Vec<&str> =
        section("The socket of a CLI").lines().filter_map(|line| line.strip_prefix("    ")).collect();
    assert_eq!(lines.len(), 10);
    for line in lines {
        let (direction, shown) = line.split_at(2);
        let shown = shown.replace("<sessionId>", &session);
        if direction == "> " {
            let named = shown.replace(r#""token":"…""#, &format!(r#""token":"{}""#, world.token()));
            cli.send(named.replace("…", &session).replace("5023", &ack));
        } else if shown.contains("rpc-request") {
            call = Some(world.start("GET", &format!("/api/sessions/{session}/git-status"), ""));
            let heard = receive(&mut cli, &shown.replace("5023", "…")).await;
            ack = heard.chars().skip("42/cli,".len()).take_while(char::is_ascii_digit).collect();
        } else {
            if shown == "2" {
                world.advance(60_000).await;
            }
            receive(&mut cli, &shown).await;
        }
    }
    let status = call.unwrap().reply().await.ok();
    assert_eq!(status, json!({"success": true, "branch": "main", "files": []}));
    assert_eq!(cli.wait_for_close().await, 1000);
}

#[tokio::test(start_paused = true)]
async fn a_permission_is_asked_for_as_the_document_shows_it() {
    let world = World::new();
    let session = world.create_session("/code").await;
    let mut cli = world.cli(&session).await;
    let lines: Vec<&str> = section("Versioned updates").lines().filter(|line| line.starts_with('4')).collect();
    assert_eq!(lines.len(), 4);
    for line in lines {
        match line.starts_with("42") {
            true => cli.socket.send(line.replace('…', &session)),
            false => drop(receive(&mut cli.socket, line).await),
        }
    }
    assert_eq!(world.get_session(&session).await["agentState"]["requests"]["r1"]["tool"], "shell");
}
