//! The example frames in docs/PROTOCOL-CLI.md are those that the hub sends and accepts.

use crate::support::World;
use crate::support::socket::Socket;
use serde_json::json;

/// The text of a section of the document.
fn section(heading: &str) -> &'static str {
    let text = include_str!("../../docs/PROTOCOL-CLI.md");
    let (_, after) = text.split_once(&format!("\n## {heading}\n")).expect(heading);
    after.split("\n## ").next().unwrap()
}

/// Whether a frame matches an example. A `…` in the example matches any letters, digits and hyphens.
fn matches(frame: &str, expected: &str) -> bool {
    let mut parts = expected.split('…');
    let Some(mut rest) = frame.strip_prefix(parts.next().unwrap()) else { return false };
    for part in parts {
        let word = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
        let Some(after) = rest[word..].strip_prefix(part) else { return false };
        rest = after;
    }
    rest.is_empty()
}

/// Receives a frame, which must match the example.
async fn receive(socket: &mut Socket, expected: &str) -> String {
    let frame = socket.next_text().await;
    assert!(matches(&frame, expected), "the document has {expected}, but the hub sends {frame}");
    frame
}

#[tokio::test(start_paused = true)]
async fn the_example_conversation_of_a_cli_is_correct() {
    let world = World::new();
    let session = world.create_session("/home/ada/project").await;
    let mut cli = world.open_cli(false);
    let mut call = None;
    let mut ack = String::new();
    let lines: Vec<&str> =
        section("The socket of a CLI").lines().filter_map(|line| line.strip_prefix("    ")).collect();
    assert_eq!(lines.len(), 10);
    for line in lines {
        let (direction, expected) = line.split_at(2);
        let expected = expected.replace("<sessionId>", &session);
        if direction == "> " {
            let with_token = expected.replace(r#""token":"…""#, &format!(r#""token":"{}""#, world.token()));
            cli.send(with_token.replace("…", &session).replace("5023", &ack));
        } else if expected.contains("rpc-request") {
            call = Some(world.start("GET", &format!("/api/sessions/{session}/git-status"), ""));
            let frame = receive(&mut cli, &expected.replace("5023", "…")).await;
            ack = frame.chars().skip("42/cli,".len()).take_while(char::is_ascii_digit).collect();
        } else {
            if expected == "2" {
                world.advance(60_000).await;
            }
            receive(&mut cli, &expected).await;
        }
    }
    let status = call.unwrap().reply().await.ok();
    assert_eq!(status, json!({"success": true, "branch": "main", "files": []}));
    assert_eq!(cli.wait_for_close().await, 1000);
}

#[tokio::test(start_paused = true)]
async fn the_example_of_a_permission_request_is_correct() {
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
