//! Requests and answers across the border. Bodies are read whole, and no further than their limit: the only large ones,
//! uploads, go another way (`upload`).

use axum::body::{Body, Bytes};
use futures::future::LocalBoxFuture;
use http::{HeaderMap, header};
use js_sys::{JsString, Promise, Uint8Array};
use wasm_bindgen::JsValue;
use wasm_bindgen::closure::Closure;
use wasm_bindgen_futures::{JsFuture, future_to_promise};
use web_sys::{Headers, Request, Response, ResponseInit};

use super::glue::{self, JSON_HEADERS};
use crate::http::MAX_UNRESERVED_BYTES;
use crate::http::edge::{RequestHead, split_url};
use crate::http::error::ErrorResponse;
use crate::http::extract::MAX_BODY_BYTES;
use crate::hub::error::Error;

type Result<T> = std::result::Result<T, JsValue>;

/// Runs a future and returns its promise. The future is boxed, because `future_to_promise` is compiled for each type.
pub fn promise(work: impl Future<Output = Result<JsValue>> + 'static) -> Promise {
    let work: LocalBoxFuture<'static, Result<JsValue>> = Box::pin(work);
    future_to_promise(work)
}

/// A request without its body, as the edge sorts it.
pub fn head(request: &Request) -> RequestHead {
    let text = glue::head(request, "authorization origin upgrade");
    let mut lines = text.split('\n');
    let mut next = || lines.next().unwrap_or_default();
    let method = next().to_owned();
    let (host, path, query) = split_url(next());
    let given = |line: &str| (!line.is_empty()).then(|| line.to_owned());
    RequestHead {
        method,
        host: host.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        authorization: given(next()),
        origin: given(next()),
        is_upgrade: next().eq_ignore_ascii_case("websocket"),
    }
}

/// A text in wasm memory. On the usual way its characters come in one by one, or take three bytes each meanwhile, and that
/// memory never shrinks. So a text that is not small comes as bytes; a large one in whole megabytes, so that the next one
/// fits into its place.
pub fn text(text: &JsString) -> String {
    const MEGABYTE: usize = 1024 * 1024;
    let bytes = glue::utf8(text);
    let length = bytes.length() as usize;
    let room = if length > 4 * MEGABYTE { length.next_multiple_of(MEGABYTE) } else { length };
    let mut copy = Vec::with_capacity(room);
    copy.resize(length, 0);
    bytes.copy_to(&mut copy);
    // The runtime has checked that the text has no half characters.
    String::from_utf8(copy).unwrap_or_default()
}

/// The body of a request, or the refusal of one that is too large, came too slowly or broke off.
pub async fn body(request: &Request, limit: usize) -> Result<std::result::Result<Vec<u8>, ErrorResponse>> {
    let read = JsFuture::from(glue::body(request, limit)).await?;
    Ok(match read.as_string().as_deref() {
        None => Ok(Uint8Array::new(&read).to_vec()),
        Some("too-large") => Err(ErrorResponse::body_too_large(limit)),
        Some("stalled") => Err(ErrorResponse::body_stalled()),
        // Its client is gone and hears nothing of it.
        Some(_) => Err(Error::InvalidBody("It broke off before its end.".into()).into()),
    })
}

/// A request for the object's router.
pub async fn request(
    request: &Request,
    method: &str,
    url: &str,
) -> Result<std::result::Result<http::Request<Body>, ErrorResponse>> {
    let body = if method == "GET" || method == "HEAD" {
        Body::empty()
    } else {
        match body(request, MAX_BODY_BYTES).await? {
            Ok(bytes) => Body::from(bytes),
            Err(refusal) => return Ok(Err(refusal)),
        }
    };
    Ok(bodiless(method, url).map(|request| request.map(|_| body)))
}

/// A request for the object's router, without a body.
pub fn bodiless(method: &str, url: &str) -> std::result::Result<http::Request<Body>, ErrorResponse> {
    let (host, path, query) = split_url(url);
    let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    http::Request::builder()
        .method(method)
        .uri(target)
        .header(header::HOST, host)
        .body(Body::empty())
        .map_err(|_| ErrorResponse::no_route())
}

/// The size of the parts in which a larger one leaves, in bytes.
const ANSWER_PART: usize = 1024 * 1024;

/// Headers as names and values in turn, a line each. Without the length, which the runtime counts itself.
pub fn lines(headers: &HeaderMap) -> String {
    let mut lines = String::with_capacity(if headers.is_empty() { 0 } else { JSON_HEADERS.len() });
    for (name, value) in headers.iter().filter(|(name, _)| *name != header::CONTENT_LENGTH) {
        for part in [name.as_str(), "\n", value.to_str().unwrap_or_default(), "\n"] {
            lines.push_str(part);
        }
    }
    lines
}

/// An answer for the runtime that is not large.
pub fn response(answer: &http::Response<Bytes>) -> Response {
    glue::answer(answer.status().as_u16(), &lines(answer.headers()), answer.body())
}

/// An answer for the runtime, which may be large; `context` is what can wait until it has left, of the worker or the object.
pub fn any_response(answer: &http::Response<Bytes>, context: &JsValue) -> Response {
    match answer.body() {
        body if body.len() > MAX_UNRESERVED_BYTES => {
            let headers = lines(answer.headers());
            glue::answer_in_parts(answer.status().as_u16(), &headers, parts(body.clone()), context)
        }
        _ => response(answer),
    }
}

/// Gives out a body part by part, and lets go of it with the last one, or when no more is wanted.
fn parts(mut rest: Bytes) -> JsValue {
    let next = move |more: bool| {
        let part = rest.split_to(if more { rest.len().min(ANSWER_PART) } else { 0 });
        if !more || rest.is_empty() {
            rest = Bytes::new();
        }
        (!part.is_empty()).then(|| Uint8Array::from(&*part))
    };
    Closure::<dyn FnMut(bool) -> Option<Uint8Array>>::new(next).into_js_value()
}

/// Adds headers to an answer.
pub fn add_headers(response: Response, added: &HeaderMap) -> Result<Response> {
    if added.is_empty() {
        return Ok(response);
    }
    let init = ResponseInit::new();
    init.set_status(response.status());
    let headers = Headers::new_with_headers(&response.headers())?;
    for (name, value) in added {
        let value = value.to_str().unwrap_or_default();
        if name == header::VARY { headers.append(name.as_str(), value)? } else { headers.set(name.as_str(), value)? }
    }
    init.set_headers(&headers);
    Response::new_with_opt_readable_stream_and_init(response.body().as_ref(), &init)
}
