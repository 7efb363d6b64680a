//! The entry of every target: a binary runs the body that has its name.

#![no_main]

use session_gateway_hub_fuzz::run;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    // All that the hub parses is text: a frame or body that is not UTF-8 was refused before.
    if let Ok(text) = std::str::from_utf8(input) {
        run(env!("CARGO_BIN_NAME"), text);
    }
});
