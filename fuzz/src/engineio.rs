//! Engine.IO frames: encoding a decoded packet gives the same frame, and invalid frames have the right error.

use session_gateway_hub::wire::engineio::{DecodeError, decode};

pub fn run(frame: &str) {
    match decode(frame) {
        Ok(packet) => assert_eq!(packet.encode(), frame),
        Err(error) => {
            let expected = match frame.chars().next() {
                None => DecodeError::Empty,
                Some(kind @ ('1' | '5' | '6')) => DecodeError::UnexpectedData(kind),
                Some(kind) => DecodeError::UnknownType(kind),
            };
            assert_eq!(error, expected);
            assert!(!frame.starts_with(['0', '2', '3', '4']), "{frame:?} is valid");
        }
    }
}
