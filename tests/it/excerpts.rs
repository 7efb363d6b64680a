//! Pages of messages with excerpts of large contents.

use session_gateway_hub::http::history::MAX_BYTES_WITHOUT_EXCERPT;
use session_gateway_hub::limits::MAX_PART_BYTES;

use crate::support::prelude::*;

/// The most characters of each of the two texts of an excerpt.
const EXCERPT_CHARS: usize = 4_000;

/// Reads the messages of a session, oldest first.
async fn read(world: &World, session: &str, query: &str) -> Vec<Value> {
    let page = world.get(&format!("/api/sessions/{session}/messages?afterSeq=0&limit=200{query}")).await.ok();
    page["messages"].as_array().unwrap().clone()
}

/// The content as text, and the first and the last characters of it.
fn excerpt_of(content: &Value) -> (usize, Value) {
    let text = content.to_string();
    let chars: Vec<char> = text.chars().collect();
    let start: String = chars[..EXCERPT_CHARS].iter().collect();
    let end: String = chars[chars.len() - EXCERPT_CHARS..].iter().collect();
    (text.len(), json!([start, end]))
}

#[tokio::test(start_paused = true)]
async fn a_large_content_is_replaced_by_its_start_and_end_if_the_client_requests_excerpts() {
    let (world, session, mut cli) = live_session().await;
    let limit = usize::try_from(MAX_BYTES_WITHOUT_EXCERPT).unwrap();
    // With the quotes, this content has the largest size that is sent whole.
    let whole = json!("x".repeat(limit - 2));
    let large = [
        json!("x".repeat(limit - 1)),
        json!({"text": format!("{}\n\"\u{1f980}{}", "\u{1f980}".repeat(20_000), "\u{1f980}".repeat(20_000)), "after": "the end"}),
        // Contents in two and in four parts. The last part of the first content has 12 characters.
        json!(format!("start{}the last line", "y".repeat(MAX_PART_BYTES - 9))),
        json!(format!("start{}the last line", "\u{e9}\n".repeat(1_400_000))),
    ];
    for content in [&whole].into_iter().chain(&large) {
        cli.emit_with_ack("message", &json!({"sid": session, "message": content})).await;
    }
    let messages = read(&world, &session, "&excerpts=true").await;
    assert_eq!(messages.len(), 5);
    assert_eq!(messages[0]["content"], whole);
    for (message, content) in messages[1..].iter().zip(&large) {
        let (bytes, excerpt) = excerpt_of(content);
        assert_eq!((&message["contentBytes"], &message["excerpt"]), (&json!(bytes), &excerpt));
        assert!(message.get("content").is_none() && message["createdAt"].is_number());
    }
    // A single message can be read whole. A page without the parameter has no excerpts.
    let seq = messages[4]["seq"].as_u64().unwrap();
    let page = world.get(&format!("/api/sessions/{session}/messages?beforeSeq={}&limit=1", seq + 1)).await.ok();
    assert_eq!(page["messages"][0]["content"], large[3]);
    for query in ["", "&excerpts=false"] {
        let messages = read(&world, &session, query).await;
        assert!(
            messages
                .iter()
                .zip([&whole].into_iter().chain(&large))
                .all(|(message, content)| message["content"] == *content)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn pages_of_excerpts_are_small_and_complete_and_the_database_reads_a_bounded_size_for_each() {
    let (world, session, mut cli) = live_session().await;
    for _ in 0..40 {
        cli.send_message(&session, &"\u{1f980}".repeat(500_000)).await;
    }
    let reads = world.db.read_count();
    let (mut lengths, mut before) = (Vec::new(), 41);
    while before > 1 {
        let query = format!("limit=40&excerpts=true&beforeSeq={before}");
        let reply = world.get(&format!("/api/sessions/{session}/messages?{query}")).await;
        assert!(reply.text.len() < 40 * 33_000, "{}", reply.text.len());
        let page = reply.ok();
        let messages = page["messages"].as_array().unwrap();
        before = messages.iter().map(|message| message["seq"].as_u64().unwrap()).min().unwrap();
        assert_eq!(page["hasMore"], before > 1);
        lengths.push(messages.len());
    }
    // A message of 2 MB counts as 500,000 bytes of the 8 MiB of a page.
    assert_eq!(lengths, [17, 17, 6]);
    let statements: Vec<_> = world.db.read_batches()[reads..].iter().flatten().map(|s| s.sql).collect();
    assert!(statements.iter().all(|sql| !sql.contains("part > ?4")), "no parts are read: {statements:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_cli_always_reads_whole_contents() {
    let (world, session, mut cli) = live_session().await;
    cli.send_message(&session, &"x".repeat(100_000)).await;
    let page = world.get(&format!("/cli/sessions/{session}/messages?excerpts=true")).await.ok();
    assert!(page["messages"][0]["content"].is_object());
}
