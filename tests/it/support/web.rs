//! A test web client that receives events, over WebSocket or an event stream (SSE).

use super::prelude::*;
use super::socket::Socket;

/// Each frame is one event, as JSON or SSE text.
pub struct Web(pub Socket);

/// Parses an event in either format. Adds the id of an SSE event as `eventId`.
pub fn parse_event(text: &str) -> Value {
    let json = |text: &str| serde_json::from_str(text).unwrap_or_else(|e| panic!("not JSON ({e}): {text}"));
    if text.starts_with('{') {
        return json(text);
    }
    let lines: Vec<&str> = text.split('\n').collect();
    let data = |line: &str| json(line.strip_prefix("data: ").unwrap());
    match lines[..] {
        [line, "", ""] => data(line),
        [id, line, "", ""] => {
            let mut event = data(line);
            event["eventId"] = id.strip_prefix("id: ").unwrap().into();
            event
        }
        _ => panic!("invalid SSE: {text}"),
    }
}

/// The number in the id of an event.
pub fn event_number(event: &Value) -> u64 {
    event["eventId"].as_str().unwrap().rsplit('-').next().unwrap().parse().unwrap()
}

impl Web {
    pub async fn next_event(&mut self) -> Value {
        parse_event(&self.0.next_text().await)
    }

    /// The next event with a type. Events before it remain unread.
    pub async fn next_event_of(&mut self, kind: &str) -> Value {
        let description = format!("the event {kind}");
        self.0
            .wait_for(&description, |frame| match frame {
                Frame::Text(text) => {
                    let event = parse_event(text);
                    (event["type"] == kind).then_some(event)
                }
                Frame::Closed { .. } => None,
            })
            .await
    }

    /// Acknowledges a heartbeat. The hub accepts any text.
    pub fn acknowledge_heartbeat(&self) {
        self.0.send("read");
    }

    /// The types of all unread events.
    pub async fn types(&mut self) -> Vec<String> {
        self.events().await.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }

    pub async fn events(&mut self) -> Vec<Value> {
        let parse = |frame| match frame {
            Frame::Text(text) => parse_event(&text),
            closed => panic!("expected events, but received {closed:?}"),
        };
        self.0.drain().await.into_iter().map(parse).collect()
    }
}
