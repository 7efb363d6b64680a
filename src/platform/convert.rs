//! Conversion of requests and responses between JavaScript and Rust. Request bodies are copied into wasm memory up to a limit.
//! Only the bodies of uploads stay in JavaScript (`upload`).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, header};
use js_sys::{JsString, Promise, Uint8Array};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{JsFuture, future_to_promise};
use web_sys::{Request, Response};

use super::glue::{self, CLIENT_HEADERS, Incoming, JSON_HEADERS};
use crate::http::edge::{RequestHead, split_url};
use crate::http::error::ErrorResponse;
use crate::http::extract::{MAX_BODY_BYTES, is_read};
use crate::http::response::reserved_bytes;
use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::limits::{BODY_TIMEOUT_MS, MAX_UNRESERVED_BYTES, MIN_PROGRESS_BYTES, PROGRESS_TIMEOUT_MS};
use crate::memory_budget::Reservation;

/// The largest body that needs no reservation of memory, in bytes. A read takes at most this number of bytes.
const MAX_UNRESERVED_BODY_BYTES: usize = MIN_PROGRESS_BYTES as usize;
/// The chunk size of a streamed response, in bytes.
const RESPONSE_CHUNK_BYTES: usize = 1024 * 1024;
/// The size of the first chunk, in bytes: a client that is gone reads nothing.
const FIRST_CHUNK_BYTES: usize = 64 * 1024;

type Result<T> = std::result::Result<T, JsValue>;

/// Reads the parts of a request that routing needs.
pub fn request_head(incoming: &Incoming) -> RequestHead {
    let text = glue::read_head(incoming, CLIENT_HEADERS);
    // The lines: method, URL, and the headers in the order of their names.
    let mut lines = text.split('\n');
    let mut next_line = || lines.next().unwrap_or_default();
    let method = next_line().to_owned();
    let (host, path, query) = split_url(next_line());
    let non_empty = |line: &str| (!line.is_empty()).then(|| line.to_owned());
    RequestHead {
        method,
        host: host.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        authorization: non_empty(next_line()),
        origin: non_empty(next_line()),
        is_upgrade: next_line().eq_ignore_ascii_case("websocket"),
        client: next_line().to_owned(),
    }
}

/// Copies a string into wasm memory, which never shrinks.
///
/// `wasm-bindgen` would copy character by character, or reserve three bytes for each. Above 4 MiB the capacity is rounded up to
/// whole MiB, so that later strings of a similar length reuse the memory.
pub fn copy_to_wasm(text: &JsString) -> String {
    const MEGABYTE: usize = 1024 * 1024;
    let bytes = glue::encode_utf8(text);
    let length = bytes.length() as usize;
    let capacity = if length > 4 * MEGABYTE { length.next_multiple_of(MEGABYTE) } else { length };
    let mut copy = Vec::with_capacity(capacity);
    copy.resize(length, 0);
    bytes.copy_to(&mut copy);
    // `TextEncoder` returns valid UTF-8.
    String::from_utf8(copy).unwrap_or_default()
}

/// Discards the unread part of the body of a request, so that its client gets the response.
pub async fn discard_body(request: &Request) {
    if let Some(discarded) = glue::discard_body(request) {
        // The promise never rejects.
        let _ = JsFuture::from(discarded).await;
    }
}

/// Reads the body of a request. The inner error is the response if the body is too large, too slow or incomplete, or if there is
/// no memory for the body. The JavaScript function `reserve` waits for memory. `declared` is the `Content-Length`.
pub async fn read_body(
    request: &Request,
    declared: Option<usize>,
    limit: usize,
    reserve: &JsValue,
) -> Result<std::result::Result<Vec<u8>, ErrorResponse>> {
    let (min_bytes, progress_ms) = (MIN_PROGRESS_BYTES, PROGRESS_TIMEOUT_MS);
    let body = glue::read_body(request, declared, limit, min_bytes, progress_ms, BODY_TIMEOUT_MS, reserve);
    let body = JsFuture::from(body).await?;
    Ok(match body.as_string().as_deref() {
        None => Ok(body.unchecked_into::<Uint8Array>().to_vec()),
        Some("too-large") => Err(ErrorResponse::body_too_large(limit)),
        Some("stalled") => Err(ErrorResponse::body_stalled()),
        Some("overloaded") => Err(Error::MemoryInUse.into()),
        Some(_) => Err(Error::InvalidBody("It ended early. Send it again.".into()).into()),
    })
}

/// Returns the `Content-Length`, in bytes.
pub fn declared_length(request: &Request) -> Option<usize> {
    request.headers().get("content-length").ok().flatten().and_then(|length| length.parse().ok())
}

/// Converts a request for the router. Reserves memory for the body while it is received. `content_length` is the header.
pub async fn to_router_request(
    request: &Request,
    method: &str,
    url: &str,
    content_length: Option<usize>,
    hub: &Arc<Hub>,
) -> Result<std::result::Result<http::Request<Bytes>, ErrorResponse>> {
    let body = if is_read(method) {
        Bytes::new()
    } else {
        let memory = Rc::new(RefCell::new(hub.memory.budget.empty_reservation()));
        let is_small = content_length.is_some_and(|bytes| bytes < MAX_UNRESERVED_BODY_BYTES);
        let reserve = (!is_small).then(|| reserve_function(Arc::clone(hub), Rc::clone(&memory)));
        let reserve = reserve.as_ref().map_or(JsValue::UNDEFINED, |reserve| reserve.as_ref().clone());
        match read_body(request, content_length, MAX_BODY_BYTES, &reserve).await? {
            Ok(bytes) => {
                let mut memory = memory.replace(hub.memory.budget.empty_reservation());
                memory.resize(if bytes.len() > MAX_UNRESERVED_BODY_BYTES { bytes.len() } else { 0 });
                reserved_bytes(bytes.into(), Arc::new(memory))
            }
            Err(error) => return Ok(Err(error)),
        }
    };
    Ok(to_bodiless_request(method, url).map(|request| request.map(|_| body)))
}

/// Returns a JavaScript function that waits for memory and resizes a reservation. Resolves to `false` if there is no memory.
fn reserve_function(hub: Arc<Hub>, memory: Rc<RefCell<Reservation>>) -> Closure<dyn FnMut(usize) -> Promise> {
    Closure::new(move |bytes: usize| {
        let (hub, memory) = (Arc::clone(&hub), Rc::clone(&memory));
        future_to_promise(async move {
            let missing_bytes = bytes.saturating_sub(memory.borrow().bytes());
            let reserved = hub.memory.reserve(missing_bytes).await;
            if reserved.is_ok() {
                memory.borrow_mut().resize(bytes);
            }
            Ok(reserved.is_ok().into())
        })
    })
}

pub fn to_bodiless_request(method: &str, url: &str) -> std::result::Result<http::Request<Bytes>, ErrorResponse> {
    let (host, path, query) = split_url(url);
    let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    http::Request::builder()
        .method(method)
        .uri(target)
        .header(header::HOST, host)
        .body(Bytes::new())
        .map_err(|_| ErrorResponse::no_route())
}

/// Serializes headers for JavaScript: alternating lines with a name and a value. Omits `Content-Length`, which the runtime sets.
pub fn header_lines(headers: &HeaderMap) -> String {
    let mut lines = String::with_capacity(if headers.is_empty() { 0 } else { JSON_HEADERS.len() });
    for (name, value) in headers.iter().filter(|(name, _)| *name != header::CONTENT_LENGTH) {
        for part in [name.as_str(), "\n", value.to_str().unwrap_or_default(), "\n"] {
            lines.push_str(part);
        }
    }
    lines
}

pub fn to_js_error(error: ErrorResponse) -> Response {
    to_js_response(&error.into_response())
}

/// Converts a response whose body is copied to JavaScript at once.
pub fn to_js_response(response: &http::Response<Bytes>) -> Response {
    glue::create_response(response.status().as_u16(), &header_lines(response.headers()), response.body())
}

/// Converts a response. A body above [`MAX_UNRESERVED_BYTES`] is streamed, so that it is not in memory twice. `context` has
/// `waitUntil`: the context of the worker or the state of the object.
pub fn to_js_response_or_stream(response: &http::Response<Bytes>, context: &JsValue) -> Response {
    let body = response.body();
    if body.len() <= MAX_UNRESERVED_BYTES {
        return to_js_response(response);
    }
    let (status, headers) = (response.status().as_u16(), header_lines(response.headers()));
    glue::streamed_response(status, &headers, chunks(body.clone()), context, body.len())
}

/// Returns a JavaScript function: `next(true)` returns the next chunk or undefined after the last; `next(false)` drops the rest.
fn chunks(mut body: Bytes) -> JsValue {
    let mut chunk_bytes = FIRST_CHUNK_BYTES;
    let next = move |is_wanted: bool| {
        let chunk = body.split_to(if is_wanted { body.len().min(chunk_bytes) } else { 0 });
        chunk_bytes = RESPONSE_CHUNK_BYTES;
        if !is_wanted || body.is_empty() {
            body = Bytes::new();
        }
        (!chunk.is_empty()).then(|| Uint8Array::from(&*chunk))
    };
    Closure::<dyn FnMut(bool) -> Option<Uint8Array>>::new(next).into_js_value()
}
