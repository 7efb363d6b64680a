//! A web client that listens to events.

use serde_json::Value;

use super::runtime::Frame;
use super::socket::Socket;

/// A subscriber over WebSocket: one JSON event a frame.
pub struct Web(pub Socket);

impl Web {
    /// The next event.
    pub async fn event(&mut self) -> Value {
        serde_json::from_str(&self.0.text().await).unwrap()
    }

    /// The next event of this type; the others stay.
    pub async fn event_of(&mut self, wanted: &str) -> Value {
        let what = format!("the event {wanted}");
        self.0
            .find(&what, |frame| match frame {
                Frame::Text(text) => {
                    let event: Value = serde_json::from_str(text).unwrap();
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
            Frame::Text(text) => serde_json::from_str(&text).unwrap(),
            closed => panic!("expected events, but heard {closed:?}"),
        };
        self.0.rest().await.into_iter().map(read).collect()
    }
}
