//! Engine.IO frames: a packet has the type and the data of its frame, and a frame is invalid only for its type or its data.

use session_gateway_hub::wire::engineio::{Packet, decode};

pub fn run(frame: &str) {
    match decode(frame) {
        Ok(Packet::Close) => assert_eq!(frame, "1"),
        Ok(Packet::Ping(data)) => assert_eq!(frame.strip_prefix('2'), Some(data)),
        Ok(Packet::Pong) => assert!(frame.starts_with('3')),
        Ok(Packet::Message(data)) => assert_eq!(frame.strip_prefix('4'), Some(data)),
        Ok(Packet::Handshake) => assert!(frame.starts_with('0') || ["5", "6"].contains(&frame)),
        Err(_) => {
            let has_data = frame.len() > 1 && frame.starts_with(['1', '5', '6']);
            assert!(has_data || !frame.starts_with(|first| ('0'..='6').contains(&first)), "{frame:?} is valid");
        }
    }
}
