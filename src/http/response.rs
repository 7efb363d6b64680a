//! Responses: their common headers, JSON bodies, and memory for large ones.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use tower_service::Service;

use super::error::ErrorResponse;
use crate::hub::Hub;
use crate::hub::large::ResponseText;
use crate::ledger::Reservation;
use crate::limits::MAX_UNRESERVED_BYTES;
use crate::model::json::Json;

/// Handles a request and buffers the response.
pub async fn respond(hub: &Hub, mut router: Router, request: Request) -> http::Response<Bytes> {
    let response = match router.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let has_reservation = response.extensions().get::<Arc<Reservation>>().is_some();
    let response = finalize(response).await;
    if has_reservation || response.body().len() <= MAX_UNRESERVED_BYTES {
        return response;
    }
    match hub.reserve_memory(response.body().len()) {
        Ok(reservation) => response.map(|body| reserved_bytes(body, Arc::new(reservation))),
        Err(error) => finalize(ErrorResponse::from(error).into_response()).await,
    }
}

/// Adds the headers of all responses, which forbid caching and content sniffing, and buffers the body.
pub async fn finalize(response: Response) -> http::Response<Bytes> {
    let (mut parts, body) = response.into_parts();
    parts.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    parts.headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let bytes = match parts.extensions.remove::<Arc<Reservation>>() {
        Some(reservation) => reserved_bytes(bytes, reservation),
        None => bytes,
    };
    http::Response::from_parts(parts, bytes)
}

struct Reserved {
    bytes: Bytes,
    _reservation: Arc<Reservation>,
}

/// Returns bytes that release `reservation` on drop.
pub fn reserved_bytes(bytes: Bytes, reservation: Arc<Reservation>) -> Bytes {
    Bytes::from_owner(Reserved { bytes, _reservation: reservation })
}

impl AsRef<[u8]> for Reserved {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A 200 response with a JSON body, and the reservation of a large body.
pub struct JsonText(ResponseText);

impl From<ResponseText> for JsonText {
    fn from(response: ResponseText) -> Self {
        Self(response)
    }
}

impl IntoResponse for JsonText {
    fn into_response(self) -> Response {
        let ResponseText { text, reservation } = self.0;
        let mut response = ([(header::CONTENT_TYPE, "application/json")], text).into_response();
        if let Some(reservation) = reservation {
            response.extensions_mut().insert(Arc::new(reservation));
        }
        response
    }
}

impl JsonText {
    /// A JSON text that needs no reservation.
    pub fn of(text: impl Into<String>) -> Self {
        Self(ResponseText { text: text.into(), reservation: None })
    }

    /// Serializes a value.
    pub fn serialize<T: serde::Serialize>(value: &T) -> Self {
        Self::of(Json::of(value).text())
    }

    /// `{"<name>": <value>}`.
    pub fn wrap<T: serde::Serialize>(name: &str, value: &T) -> Self {
        Self::of(format!(r#"{{"{name}":{}}}"#, Json::of(value).text()))
    }

    /// `{"<name>": <text>}`. The text is moved in place instead of copied: it may have 60 MB.
    pub fn wrap_text(name: &str, mut response: ResponseText) -> Self {
        response.text.insert_str(0, &format!(r#"{{"{name}":"#));
        response.text.push('}');
        Self(response)
    }

    /// `{"ok": true}`.
    pub fn ok() -> Self {
        Self::of(r#"{"ok":true}"#)
    }
}
