//! Extractors: the only ways for a handler to get a session, a machine, a body or a query. They run in the order of a
//! handler's arguments, and with them the order of refusals: 503, 404, 403, then 400.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use futures::future::BoxFuture;
use http::header;
use http::request::Parts;
use serde::de::DeserializeOwned;

use super::error::Refusal;
use super::query::Query;
use crate::hub::Hub;
use crate::hub::error::Error;
use crate::hub::ports::UploadBody;
use crate::hub::workspace::files::Workspace;
use crate::push::endpoint::Endpoint;
use crate::wire::fields::read_object;

/// The largest JSON body, in bytes: a text of 1 MiB that had every character escaped, and attachments besides.
pub const MAX_BODY: usize = 8 * 1024 * 1024;

/// The id of a session in the path: it exists, belongs to this namespace, and is in memory.
pub struct OwnedSession(pub String);

/// The same, with what calls about its working directory need.
pub struct OwnedWorkspace(pub Workspace);

/// The id of a machine in the path: it exists, belongs to this namespace, and is in memory.
pub struct OwnedMachine(pub String);

/// The query string.
pub struct QueryString(pub Query);

/// A JSON object as body, read into a type. An empty body counts as `{}` where `T` has no required field.
pub struct JsonBody<T>(pub T);

/// The body of an upload, which stays outside; see [`keeps_body_outside`].
#[derive(Clone)]
pub struct OutsideBody(pub Arc<dyn UploadBody>);

/// Whether the body of a request must not come into the hub's memory: its handler finds it as [`OutsideBody`] among the
/// request's extensions.
pub fn keeps_body_outside(method: &str, path: &str) -> bool {
    method == "POST" && path.starts_with("/api/sessions/") && path.ends_with("/upload")
}

/// The https origin under which the client knows the hub, unless it named none or one that is on this machine.
pub struct HubOrigin(pub Option<String>);

/// The `id` in the path, whatever it stands for.
pub struct PathId(pub String);

impl FromRequestParts<Arc<Hub>> for PathId {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, _: &Arc<Hub>) -> Result<Self, Refusal> {
        path_parameter(parts, "id").await.map(Self)
    }
}

/// The `requestId` in the path.
pub struct RequestId(pub String);

impl FromRequestParts<Arc<Hub>> for RequestId {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, _: &Arc<Hub>) -> Result<Self, Refusal> {
        path_parameter(parts, "requestId").await.map(Self)
    }
}

async fn path_parameter(parts: &mut Parts, name: &str) -> Result<String, Refusal> {
    let params = RawPathParams::from_request_parts(parts, &()).await;
    let params = params.map_err(|rejection| {
        // Which one it is, axum tells in words only: "Invalid UTF-8 in `id`".
        let text = rejection.body_text();
        let name = text.split('`').nth(1).unwrap_or(name);
        Refusal::from(Error::field(name, format!("The `{name}` in the path is not valid UTF-8.")))
    })?;
    let value = params.iter().find(|(found, _)| *found == name).map(|(_, value)| value.to_owned());
    value.ok_or_else(Refusal::no_route)
}

impl FromRequestParts<Arc<Hub>> for OwnedSession {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, hub: &Arc<Hub>) -> Result<Self, Refusal> {
        owned_session(parts, hub).await
    }
}

impl FromRequestParts<Arc<Hub>> for OwnedWorkspace {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, hub: &Arc<Hub>) -> Result<Self, Refusal> {
        owned_workspace(parts, hub).await
    }
}

impl FromRequestParts<Arc<Hub>> for OwnedMachine {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, hub: &Arc<Hub>) -> Result<Self, Refusal> {
        owned_machine(parts, hub).await
    }
}

// Boxed, so that their code is not copied into each handler.

fn owned_session<'a>(parts: &'a mut Parts, hub: &'a Arc<Hub>) -> BoxFuture<'a, Result<OwnedSession, Refusal>> {
    Box::pin(async move {
        let PathId(id) = PathId::from_request_parts(parts, hub).await?;
        hub.load_session_in_merge(&id).await?;
        Ok(OwnedSession(id))
    })
}

fn owned_workspace<'a>(parts: &'a mut Parts, hub: &'a Arc<Hub>) -> BoxFuture<'a, Result<OwnedWorkspace, Refusal>> {
    Box::pin(async move {
        let PathId(id) = PathId::from_request_parts(parts, hub).await?;
        Ok(OwnedWorkspace(hub.workspace(&id).await?))
    })
}

fn owned_machine<'a>(parts: &'a mut Parts, hub: &'a Arc<Hub>) -> BoxFuture<'a, Result<OwnedMachine, Refusal>> {
    Box::pin(async move {
        let PathId(id) = PathId::from_request_parts(parts, hub).await?;
        hub.load_machine(&id).await?;
        Ok(OwnedMachine(id))
    })
}

impl FromRequestParts<Arc<Hub>> for OutsideBody {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, _: &Arc<Hub>) -> Result<Self, Refusal> {
        let body = parts.extensions.get::<Self>().cloned();
        body.ok_or_else(|| Error::InvalidBody("There is none.".into()).into())
    }
}

impl FromRequestParts<Arc<Hub>> for HubOrigin {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, _: &Arc<Hub>) -> Result<Self, Refusal> {
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let origin = host.and_then(|host| Endpoint::parse(&format!("https://{host}"), false).ok());
        Ok(Self(origin.map(|origin| origin.origin())))
    }
}

impl FromRequestParts<Arc<Hub>> for QueryString {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, _: &Arc<Hub>) -> Result<Self, Refusal> {
        Ok(Self(Query::parse(parts.uri.query().unwrap_or_default())?))
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<Hub>> for JsonBody<T> {
    type Rejection = Refusal;
    async fn from_request(request: Request, _: &Arc<Hub>) -> Result<Self, Refusal> {
        Ok(Self(read_body(&body_bytes(request).await?)?))
    }
}

/// The body of a request. Not generic, as [`JsonBody`] is compiled once per type.
fn body_bytes(request: Request) -> BoxFuture<'static, Result<Bytes, Refusal>> {
    Box::pin(async move {
        let bytes = axum::body::to_bytes(request.into_body(), MAX_BODY).await;
        bytes.map_err(|_| Refusal::body_too_large(MAX_BODY))
    })
}

/// Reads a body; what is wrong with it as a whole is told apart from what is wrong with one field.
pub fn read_body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::InvalidBody("It is not valid UTF-8.".into()))?;
    let text = if text.trim().is_empty() { "{}" } else { text };
    read_object(text).map_err(Error::from_body)
}
