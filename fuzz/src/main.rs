//! The entry point of every target: a binary runs the body with its name.

#![no_main]

use session_gateway_hub_fuzz::run;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    // The hub's parsers take strings: input that is not UTF-8 is refused earlier.
    if let Ok(text) = std::str::from_utf8(input) {
        run(env!("CARGO_BIN_NAME"), text);
    }
});
