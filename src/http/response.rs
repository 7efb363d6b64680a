//! Responses: their common headers, JSON bodies, and memory for large ones.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};

use super::error::ErrorResponse;
use crate::hub::core::error::Error;
use crate::limits::MAX_UNRESERVED_BYTES;
use crate::memory_budget::{Reservation, ResponseText};
use crate::model::json::Json;
use crate::store::memory::ReadMemory;

pub type Response = http::Response<Bytes>;

pub type Reply = Result<ResponseText, ErrorResponse>;

/// A response with a JSON body and the headers of all responses, which forbid caching and content sniffing.
pub fn json_response(status: StatusCode, body: Bytes) -> Response {
    let mut response = http::Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

pub fn to_response(reply: Reply) -> Response {
    reply.map_or_else(ErrorResponse::into_response, ResponseText::into_response)
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

impl ErrorResponse {
    pub fn into_response(self) -> Response {
        let mut response = json_response(self.status, Bytes::from(self.body()));
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(allow) = self.allow.and_then(|allow| HeaderValue::try_from(allow).ok()) {
            headers.insert(header::ALLOW, allow);
        }
        response
    }
}

/// A 200 response with a JSON body, and the reservation of a large body.
impl ResponseText {
    pub fn into_response(self) -> Response {
        let body = Bytes::from(self.text);
        let body = match self.reservation {
            Some(reservation) => reserved_bytes(body, Arc::new(reservation)),
            None => body,
        };
        json_response(StatusCode::OK, body)
    }

    /// Adds a reservation to a large text that has none.
    pub fn with_reservation(mut self, memory: &ReadMemory) -> Reply {
        if self.reservation.is_none() && self.text.len() > MAX_UNRESERVED_BYTES {
            self.reservation = Some(memory.try_reserve(self.text.len()).map_err(Error::from)?);
        }
        Ok(self)
    }

    /// Creates a JSON text that needs no reservation.
    pub fn of(text: impl Into<String>) -> Self {
        Self { text: text.into(), reservation: None }
    }

    pub fn serialize<T: serde::Serialize>(value: &T) -> Self {
        Self::of(Json::of(value).text())
    }

    /// Creates `{"<name>": <value>}`. `name` needs no escapes.
    pub fn wrap<T: serde::Serialize + ?Sized>(name: &str, value: &T) -> Self {
        Self::of(format!(r#"{{"{name}":{}}}"#, Json::of(value).text()))
    }

    /// Creates `{"<name>": <this text>}`. The text is moved within its buffer instead of copied, because it may have 60 MB.
    #[must_use]
    pub fn wrapped_in(mut self, name: &str) -> Self {
        self.text.insert_str(0, &format!(r#"{{"{name}":"#));
        self.text.push('}');
        self
    }

    pub fn ok() -> Self {
        Self::of(r#"{"ok":true}"#)
    }
}

/// Answers `{"ok":true}`, or the error of an operation without a result.
pub fn acknowledge(result: Result<(), Error>) -> Reply {
    Ok(result.map(|()| ResponseText::ok())?)
}
