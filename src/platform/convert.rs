//! Requests and answers across the border. Bodies are read whole: none that comes this way is large.

use axum::body::{Body, Bytes};
use http::{HeaderMap, StatusCode, header};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::JsFuture;
use web_sys::{Headers, Request, Response, ResponseInit};

use crate::http::edge::{Head, split_url};
use crate::http::error::Refusal;
use crate::http::extract::MAX_BODY;

type Result<T> = std::result::Result<T, JsValue>;

/// A request without its body, as the edge sorts it.
pub fn head(request: &Request) -> Result<Head> {
    let url = request.url();
    let (host, path, query) = split_url(&url);
    let headers = request.headers();
    Ok(Head {
        method: request.method(),
        path: path.to_owned(),
        query: query.to_owned(),
        host: host.to_owned(),
        authorization: headers.get("authorization")?,
        origin: headers.get("origin")?,
        upgrade: is_upgrade(&headers)?,
    })
}

/// Whether a request asks for a WebSocket.
pub fn is_upgrade(headers: &Headers) -> Result<bool> {
    Ok(headers.get("upgrade")?.is_some_and(|value| value.eq_ignore_ascii_case("websocket")))
}

/// The body of a request, or the refusal of one that is too large.
pub async fn body(request: &Request, limit: usize) -> Result<std::result::Result<Vec<u8>, Refusal>> {
    let declared = request.headers().get("content-length")?.and_then(|length| length.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limit) {
        return Ok(Err(Refusal::body_too_large(limit)));
    }
    let buffer = js_sys::Uint8Array::new(&JsFuture::from(request.array_buffer()?).await?);
    let too_large = usize::try_from(buffer.length()).is_ok_and(|length| length > limit);
    Ok(if too_large { Err(Refusal::body_too_large(limit)) } else { Ok(buffer.to_vec()) })
}

/// A request for the object's router.
pub async fn request(request: &Request) -> Result<std::result::Result<http::Request<Body>, Refusal>> {
    let url = request.url();
    let (_, path, query) = split_url(&url);
    let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    let method = request.method();
    let body = if method == "GET" || method == "HEAD" {
        Body::empty()
    } else {
        match body(request, MAX_BODY).await? {
            Ok(bytes) => Body::from(bytes),
            Err(refusal) => return Ok(Err(refusal)),
        }
    };
    let built = http::Request::builder().method(method.as_str()).uri(target).body(body);
    Ok(built.map_err(|_| Refusal::no_route()))
}

/// An answer for the runtime.
pub fn response(answer: http::Response<Bytes>) -> Result<Response> {
    let (parts, body) = answer.into_parts();
    let headers = Headers::new()?;
    // The runtime counts the bytes itself.
    for (name, value) in parts.headers.iter().filter(|(name, _)| *name != header::CONTENT_LENGTH) {
        headers.append(name.as_str(), value.to_str().unwrap_or_default())?;
    }
    let init = ResponseInit::new();
    init.set_status(parts.status.as_u16());
    init.set_headers(&headers);
    if parts.status == StatusCode::NO_CONTENT {
        return Response::new_with_opt_str_and_init(None, &init);
    }
    let body = js_sys::Uint8Array::from(body.as_ref());
    Response::new_with_opt_buffer_source_and_init(Some(&body), &init)
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
