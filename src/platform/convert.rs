//! Requests and answers across the border. Bodies are read whole: none that comes this way is large.

use axum::body::{Body, Bytes};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use worker::{Headers, Request, Response, Result};

use crate::http::edge::Head;
use crate::http::error::Refusal;
use crate::http::extract::MAX_BODY;

/// A request without its body, as the edge sorts it.
pub fn head(request: &Request) -> Result<Head> {
    let url = request.url()?;
    let headers = request.headers();
    let host = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    };
    Ok(Head {
        method: request.method().to_string(),
        path: url.path().to_owned(),
        query: url.query().unwrap_or_default().to_owned(),
        host,
        authorization: headers.get("authorization")?,
        origin: headers.get("origin")?,
        upgrade: is_upgrade(headers)?,
    })
}

/// Whether a request asks for a WebSocket.
pub fn is_upgrade(headers: &Headers) -> Result<bool> {
    Ok(headers.get("upgrade")?.is_some_and(|value| value.eq_ignore_ascii_case("websocket")))
}

/// The body of a request, or the refusal of one that is too large.
pub async fn body(request: &mut Request, limit: usize) -> Result<std::result::Result<Vec<u8>, Refusal>> {
    let declared = request.headers().get("content-length")?.and_then(|length| length.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limit) {
        return Ok(Err(Refusal::body_too_large(limit)));
    }
    let bytes = request.bytes().await?;
    Ok(if bytes.len() > limit { Err(Refusal::body_too_large(limit)) } else { Ok(bytes) })
}

/// A request for the object's router.
pub async fn request(mut request: Request) -> Result<std::result::Result<http::Request<Body>, Refusal>> {
    let url = request.url()?;
    let target = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
    let builder = http::Request::builder().method(request.method().as_ref()).uri(target);
    let body = match body(&mut request, MAX_BODY).await? {
        Ok(bytes) => Body::from(bytes),
        Err(refusal) => return Ok(Err(refusal)),
    };
    Ok(builder.body(body).map_err(|_| Refusal::no_route()))
}

/// An answer for the runtime.
pub fn response(answer: http::Response<Bytes>) -> Result<Response> {
    let (parts, body) = answer.into_parts();
    let headers = Headers::new();
    for (name, value) in &parts.headers {
        headers.append(name.as_str(), value.to_str().unwrap_or_default())?;
    }
    let built =
        if parts.status == StatusCode::NO_CONTENT { Response::empty()? } else { Response::from_bytes(body.into())? };
    Ok(built.with_status(parts.status.as_u16()).with_headers(headers))
}

/// Adds headers to an answer.
pub fn add_headers(response: Response, added: &HeaderMap<HeaderValue>) -> Result<Response> {
    if added.is_empty() {
        return Ok(response);
    }
    let headers = Headers::new();
    for (name, value) in response.headers().entries() {
        headers.append(&name, &value)?;
    }
    for (name, value) in added {
        let name = name.as_str();
        let value = value.to_str().unwrap_or_default();
        if name == header::VARY { headers.append(name, value)? } else { headers.set(name, value)? }
    }
    Ok(response.with_headers(headers))
}
