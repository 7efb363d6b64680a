//! A test web client that receives events, over WebSocket or an event stream (SSE).

use serde_json::Value;

use super::runtime::Frame;
use super::socket::Socket;

/// Each frame is one event, as JSON or SSE text.
pub struct Web(pub Socket);

/// Parses an event in either format, with its id as `eventId`.
pub fn parse_event(text: &str) -> Value {
    let json = |text: &str| serde_json::from_str(text).unwrap_or_else(|e| panic!("not JSON ({e}): {text}"));
    let Some(streamed) = text.strip_prefix("id: ") else { return json(text) };
    let lines: Vec<&str> = streamed.split('\n').collect();
    let [id, data, "", ""] = lines[..] else { panic!("invalid SSE: {text}") };
    let mut event: Value = json(data.strip_prefix("data: ").unwrap());
    event["eventId"] = id.into();
    event
}

/// The number in the id of an event.
pub fn number(event: &Value) -> u64 {
    event["eventId"].as_str().unwrap().rsplit('-').next().unwrap().parse().unwrap()
}

impl Web {
    /// The next event.
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

    /// The types of all unread events.
    pub async fn types(&mut self) -> Vec<String> {
        self.events().await.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }

    /// All unread events.
    pub async fn events(&mut self) -> Vec<Value> {
        let parse = |frame| match frame {
            Frame::Text(text) => parse_event(&text),
            closed => panic!("expected events, but received {closed:?}"),
        };
        self.0.drain().await.into_iter().map(parse).collect()
    }
}
