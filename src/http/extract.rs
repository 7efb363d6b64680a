//! Extractors: the only way for a handler to access a session, a machine, a body or a query.
//!
//! They run in the order of a handler's arguments. If a request has several errors, the response is the first of 503,
//! 404, 403 and 400.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use futures::future::BoxFuture;
use http::header;
use http::request::Parts;
use serde::de::DeserializeOwned;

use super::error::ErrorResponse;
use super::query::Query;
use crate::hub::Hub;
use crate::hub::error::Error;
use crate::hub::ports::UploadBody;
use crate::hub::workspace::files::Workspace;
use crate::limits::MAX_BODY_BYTES;
use crate::push::endpoint::Endpoint;
use crate::wire::fields::read_object;

/// The id of a session that exists, belongs to the namespace, and is loaded.
pub struct OwnedSession(pub String);

/// The id of such a session for a new message.
pub struct MessageSession(pub String);

/// The working directory of a session that exists, belongs to the namespace, and is loaded.
pub struct OwnedWorkspace(pub Workspace);

/// The id of a machine that exists, belongs to the namespace, and is loaded.
pub struct OwnedMachine(pub String);

pub struct QueryString(pub Query);

/// The body, a JSON object. An empty body is parsed as `{}`, and so is `null` if no field is required.
pub struct JsonBody<T>(pub T);

/// The body of an upload, which stays on the JavaScript side; see [`is_upload`].
#[derive(Clone)]
pub struct ExternalBody(pub Arc<dyn UploadBody>);

/// Whether a request is an upload. Its body is not copied into wasm memory; its extensions contain an [`ExternalBody`].
pub fn is_upload(method: &str, path: &str) -> bool {
    method == "POST" && path.starts_with("/api/sessions/") && path.ends_with("/upload")
}

/// The https origin of the hub in the client's request; `None` for a private host such as localhost.
pub struct HubOrigin(pub Option<String>);

/// The path parameter `id`.
pub struct PathId(pub String);

impl FromRequestParts<Arc<Hub>> for PathId {
    type Rejection = ErrorResponse;
    async fn from_request_parts(parts: &mut Parts, _: &Arc<Hub>) -> Result<Self, ErrorResponse> {
        path_parameter(parts, "id").await.map(Self)
    }
}

/// The path parameter `requestId`.
pub struct RequestId(pub String);

impl FromRequestParts<Arc<Hub>> for RequestId {
    type Rejection = ErrorResponse;
    async fn from_request_parts(parts: &mut Parts, _: &Arc<Hub>) -> Result<Self, ErrorResponse> {
        path_parameter(parts, "requestId").await.map(Self)
    }
}

async fn path_parameter(parts: &mut Parts, name: &str) -> Result<String, ErrorResponse> {
    let params = RawPathParams::from_request_parts(parts, &()).await;
    let params = params.map_err(|rejection| {
        // axum names the parameter only in a text: "Invalid UTF-8 in `id`".
        let text = rejection.body_text();
        let name = text.split('`').nth(1).unwrap_or(name);
        ErrorResponse::from(Error::field(name, format!("Path parameter `{name}` must be percent-encoded UTF-8.")))
    })?;
    let value = params.iter().find(|(found, _)| *found == name).map(|(_, value)| value.to_owned());
    value.ok_or_else(ErrorResponse::no_route)
}

// Boxed, so that they are compiled once and not into each handler.

impl FromRequestParts<Arc<Hub>> for OwnedSession {
    type Rejection = ErrorResponse;
    async fn from_request_parts(parts: &mut Parts, hub: &Arc<Hub>) -> Result<Self, ErrorResponse> {
        Box::pin(async move {
            let PathId(id) = PathId::from_request_parts(parts, hub).await?;
            hub.load_session_during_merge(&id).await?;
            Ok(Self(id))
        })
        .await
    }
}

impl FromRequestParts<Arc<Hub>> for MessageSession {
    type Rejection = ErrorResponse;
    async fn from_request_parts(parts: &mut Parts, hub: &Arc<Hub>) -> Result<Self, ErrorResponse> {
        Box::pin(async move {
            let PathId(id) = PathId::from_request_parts(parts, hub).await?;
            hub.load_for_message(&id).await?;
            Ok(Self(id))
        })
        .await
    }
}

impl FromRequestParts<Arc<Hub>> for OwnedWorkspace {
    type Rejection = ErrorResponse;
    async fn from_request_parts(parts: &mut Parts, hub: &Arc<Hub>) -> Result<Self, ErrorResponse> {
        Box::pin(async move {
            let PathId(id) = PathId::from_request_parts(parts, hub).await?;
            Ok(Self(hub.load_workspace(&id).await?))
        })
        .await
    }
}

impl FromRequestParts<Arc<Hub>> for OwnedMachine {
    type Rejection = ErrorResponse;
    async fn from_request_parts(parts: &mut Parts, hub: &Arc<Hub>) -> Result<Self, ErrorResponse> {
        Box::pin(async move {
            let PathId(id) = PathId::from_request_parts(parts, hub).await?;
            hub.load_machine(&id).await?;
            Ok(Self(id))
        })
        .await
    }
}

impl FromRequestParts<Arc<Hub>> for ExternalBody {
    type Rejection = ErrorResponse;
    async fn from_request_parts(parts: &mut Parts, _: &Arc<Hub>) -> Result<Self, ErrorResponse> {
        let body = parts.extensions.get::<Self>().cloned();
        body.ok_or_else(|| Error::InvalidBody("It is missing.".into()).into())
    }
}

impl FromRequestParts<Arc<Hub>> for HubOrigin {
    type Rejection = ErrorResponse;
    async fn from_request_parts(parts: &mut Parts, _: &Arc<Hub>) -> Result<Self, ErrorResponse> {
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let origin = host.and_then(|host| Endpoint::parse(&format!("https://{host}"), false).ok());
        Ok(Self(origin.map(|origin| origin.origin())))
    }
}

impl FromRequestParts<Arc<Hub>> for QueryString {
    type Rejection = ErrorResponse;
    async fn from_request_parts(parts: &mut Parts, _: &Arc<Hub>) -> Result<Self, ErrorResponse> {
        Ok(Self(Query::parse(parts.uri.query().unwrap_or_default())?))
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<Hub>> for JsonBody<T> {
    type Rejection = ErrorResponse;
    async fn from_request(request: Request, _: &Arc<Hub>) -> Result<Self, ErrorResponse> {
        Ok(Self(parse_body(&body_bytes(request).await?)?))
    }
}

/// Not generic, because [`JsonBody`] is compiled for each type.
fn body_bytes(request: Request) -> BoxFuture<'static, Result<Bytes, ErrorResponse>> {
    Box::pin(async move {
        let bytes = axum::body::to_bytes(request.into_body(), MAX_BODY_BYTES).await;
        bytes.map_err(|_| ErrorResponse::body_too_large(MAX_BODY_BYTES))
    })
}

/// Parses a JSON body. An error is either [`Error::InvalidBody`] or [`Error::InvalidField`] with the field.
pub fn parse_body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Error::InvalidBody("It is not valid UTF-8. Encode it as UTF-8.".into()))?;
    match text.trim() {
        "" => read_object("{}"),
        // An error about a missing field would hide that the body is not an object.
        "null" => read_object("{}").or_else(|_| read_object(text)),
        _ => read_object(text),
    }
    .map_err(Error::from_body)
}
