//! A web client that listens to events, over WebSocket or the event stream.

use serde_json::Value;

use super::runtime::Frame;
use super::socket::Socket;

/// A subscriber: one JSON event a frame, or one event of the event stream.
pub struct Web(pub Socket);

/// An event as both kinds of subscriber understand it, with its id as `eventId`.
pub fn read(text: &str) -> Value {
    let json = |text: &str| serde_json::from_str(text).unwrap_or_else(|e| panic!("not JSON ({e}): {text}"));
    let Some(streamed) = text.strip_prefix("id: ") else { return json(text) };
    let lines: Vec<&str> = streamed.split('\n').collect();
    let [id, data, "", ""] = lines[..] else { panic!("a stream does not understand {text}") };
    let mut event: Value = json(data.strip_prefix("data: ").unwrap());
    event["eventId"] = id.into();
    event
}

/// The number in an event's id.
pub fn number(event: &Value) -> u64 {
    event["eventId"].as_str().unwrap().rsplit('-').next().unwrap().parse().unwrap()
}

impl Web {
    /// The next event.
    pub async fn next_event(&mut self) -> Value {
        read(&self.0.next_text().await)
    }

    /// The next event of this type; the others stay.
    pub async fn next_event_of(&mut self, wanted: &str) -> Value {
        let what = format!("the event {wanted}");
        self.0
            .wait_for(&what, |frame| match frame {
                Frame::Text(text) => {
                    let event = read(text);
                    (event["type"] == wanted).then_some(event)
                }
                Frame::Closed { .. } => None,
            })
            .await
    }

    /// The types of all events that were not yet read.
    pub async fn types(&mut self) -> Vec<String> {
        self.events().await.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }

    /// All events that were not yet read.
    pub async fn events(&mut self) -> Vec<Value> {
        let read = |frame| match frame {
            Frame::Text(text) => read(&text),
            closed => panic!("expected events, but heard {closed:?}"),
        };
        self.0.drain().await.into_iter().map(read).collect()
    }
}
