//! Makes the JavaScript bindings of the hub's wasm, as `wasm-bindgen --target module` does. `scripts/build/worker.mjs` runs it.

use std::path::Path;
use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [wasm, out_dir] = args.as_slice() else {
        eprintln!("Usage: session-gateway-bind WASM OUT_DIR");
        return ExitCode::from(2);
    };
    let mut bindgen = Bindgen::new();
    let bound = bindgen
        .module(true)
        .map(|bindgen| {
            bindgen
                .input_path(wasm)
                .out_name("index")
                .typescript(false)
                .demangle(true)
                // A panic loses the wasm instance: with these two the worker makes a new one (`src/platform/entry.js`).
                .reset_state_function(true)
                .force_enable_abort_handler(true)
        })
        .and_then(|bindgen| bindgen.generate(Path::new(out_dir)));
    match bound {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
