//! The request of a handler: the only way to access a session, a machine, a body or a query.
//!
//! A handler calls the methods in the order of checks of PROTOCOL.md: first the id in the path (503, 404, 403), then the query or the
//! body (400). So a request with several errors gets the first of these.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;

use super::error::ErrorResponse;
use crate::auth::token::{Credential, SecretId};
use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::core::ports::UploadBody;
use crate::hub::sessions::load::RelatedRows;
use crate::hub::workspace::Workspace;
use crate::limits::MAX_TEXT_BYTES;
use crate::push::endpoint::Endpoint;
use crate::store::Value;
use crate::wire::fields::read_object;

/// The largest JSON body, in bytes: a text of 1 MiB in which every character is escaped, and attachments.
pub const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;
const _: () = assert!(6 * MAX_TEXT_BYTES < MAX_BODY_BYTES);

/// The body of an upload, which stays on the JavaScript side; see [`is_upload`].
#[derive(Clone)]
pub struct ExternalBody(pub Arc<dyn UploadBody>);

/// Whether a request is an upload. Its body is not copied into wasm memory; its extensions contain an [`ExternalBody`].
pub fn is_upload(method: &str, path: &str) -> bool {
    method == "POST" && path.starts_with("/api/sessions/") && path.ends_with("/upload")
}

/// Whether a request with this method changes nothing.
pub fn is_read(method: &str) -> bool {
    matches!(method, "GET" | "HEAD")
}

/// Whether the object needs the credential that the token of a request was made from: to check a write, or because the handlers of the
/// path use it. Then the extensions of the request contain the credential.
pub fn is_credential_sent(method: &str, path: &str) -> bool {
    !is_read(method) || ["/api/devices", "/api/push/", "/api/namespaces/"].iter().any(|root| path.starts_with(root))
}

/// Refuses a revoked credential, which a worker may still have cached. Asks the database about one that the storage does not know.
pub async fn refuse_unconfirmed(hub: &Hub, credential: Option<&Credential>) -> Result<(), ErrorResponse> {
    match credential {
        Some(credential) if !hub.confirm_credential(credential).await? => Err(ErrorResponse::revoked(credential)),
        _ => Ok(()),
    }
}

pub fn decode_params(params: Vec<(&'static str, &str)>) -> Result<Vec<(&'static str, String)>, Error> {
    let decode = |(name, value): (&'static str, &str)| match percent_decode_str(value).decode_utf8() {
        Ok(value) => Ok((name, value.into_owned())),
        Err(_) => Err(Error::field(name, format!("Path parameter `{name}` must be percent-encoded UTF-8."))),
    };
    params.into_iter().map(decode).collect()
}

/// A request whose path and method have a route. Its futures are boxed, so that they are not compiled into each handler.
pub struct RoutedRequest {
    pub hub: Arc<Hub>,
    request: http::Request<Bytes>,
    /// The name and the decoded value of each path parameter.
    params: Vec<(&'static str, String)>,
}

impl RoutedRequest {
    pub fn new(hub: Arc<Hub>, request: http::Request<Bytes>, params: Vec<(&'static str, String)>) -> Self {
        Self { hub, request, params }
    }

    pub fn param(&self, name: &str) -> Result<String, ErrorResponse> {
        let value = self.params.iter().find(|(found, _)| *found == name).map(|(_, value)| value.clone());
        value.ok_or_else(ErrorResponse::no_route)
    }

    /// Loads the session of the request, which must exist and belong to the namespace. Returns its id.
    pub fn load_session(&self) -> BoxFuture<'_, Result<String, ErrorResponse>> {
        self.load_session_with(RelatedRows::None)
    }

    /// Loads the session like [`load_session`](Self::load_session), for a new message: with its local ids if the body has a local id.
    pub fn load_session_for_message(&self) -> BoxFuture<'_, Result<String, ErrorResponse>> {
        // The body is searched, not parsed: parsing would end the reservation of its memory, and the parsed copy would stay in memory
        // during the wait for the database. If the key has an escape sequence, the handler reads the local ids with a further query.
        let has_local_id = str::from_utf8(self.request.body()).is_ok_and(|body| body.contains(r#""localId""#));
        self.load_session_with(if has_local_id { RelatedRows::LocalIds } else { RelatedRows::None })
    }

    fn load_session_with(&self, rows: RelatedRows) -> BoxFuture<'_, Result<String, ErrorResponse>> {
        Box::pin(async move {
            let id = self.param("id")?;
            self.hub.load_session_during_merge(&id, rows).await?;
            Ok(id)
        })
    }

    /// Loads the session of the request like [`load_session`](Self::load_session). Returns its working directory.
    pub fn load_workspace(&self) -> BoxFuture<'_, Result<Workspace, ErrorResponse>> {
        Box::pin(async move { Ok(self.hub.load_workspace(&self.param("id")?).await?) })
    }

    /// Loads the machine of the request, which must exist and belong to the namespace. Returns its id.
    pub fn load_machine(&self) -> BoxFuture<'_, Result<String, ErrorResponse>> {
        Box::pin(async move {
            let id = self.param("id")?;
            self.hub.load_machine(&id).await?;
            Ok(id)
        })
    }

    pub fn is_of_cli(&self) -> bool {
        self.request.uri().path().starts_with("/cli/")
    }

    /// Returns the query string; empty if there is none.
    pub fn raw_query(&self) -> &str {
        self.request.uri().query().unwrap_or_default()
    }

    pub fn query(&self) -> Result<Query, ErrorResponse> {
        Ok(Query::parse(self.raw_query())?)
    }

    /// Takes and parses the body, a JSON object. An empty body is parsed as `{}`, and so is `null` if no field is required.
    pub fn take_json<T: DeserializeOwned>(&mut self) -> Result<T, ErrorResponse> {
        Ok(parse_body(&self.take_bytes()?)?)
    }

    /// Refuses the body `null`, for a handler that itself checks that a field is present: [`take_json`](Self::take_json) may accept it.
    pub fn refuse_null_body(&self) -> Result<(), ErrorResponse> {
        Ok(refuse_null(self.request.body())?)
    }

    /// Not generic, because [`take_json`](Self::take_json) is compiled for each type. Taking the body releases its memory after parsing.
    fn take_bytes(&mut self) -> Result<Bytes, ErrorResponse> {
        let body = std::mem::take(self.request.body_mut());
        if body.len() > MAX_BODY_BYTES { Err(ErrorResponse::body_too_large(MAX_BODY_BYTES)) } else { Ok(body) }
    }

    /// Releases the memory of a body that the handler does not read. Must be called before the first `await`.
    pub fn discard_body(&mut self) {
        *self.request.body_mut() = Bytes::new();
    }

    pub fn upload_body(&self) -> Result<Arc<dyn UploadBody>, ErrorResponse> {
        let body = self.request.extensions().get::<ExternalBody>();
        body.map(|body| Arc::clone(&body.0)).ok_or_else(|| Error::InvalidBody("It is missing.".into()).into())
    }

    /// Returns the credential of the token; `None` if the worker did not send it.
    pub fn credential(&self) -> Option<&Credential> {
        self.request.extensions().get()
    }

    /// Returns the id of the access secret that the token was made from; `None` for a device, or if the worker did not send it.
    pub fn secret(&self) -> Option<&SecretId> {
        self.request.extensions().get()
    }

    /// Returns the credential as a parameter of statements, which do nothing if the credential is revoked.
    pub fn credential_value(&self) -> Value {
        match self.credential() {
            None | Some(Credential::Shared) => Value::Null,
            Some(Credential::Generation(generation)) => u64::from(*generation).into(),
            Some(Credential::Device(id)) => Value::from(&**id),
        }
    }

    /// Refuses a credential whose revocation the object's storage shows. A worker may still have the credential in its cache. A token or
    /// a push subscription that is created with the credential would outlive the revocation. Must be repeated after a write with
    /// [`credential_value`](Self::credential_value).
    pub fn refuse_revoked(&self) -> Result<(), ErrorResponse> {
        match self.credential().filter(|credential| self.hub.access.is_revoked(credential)) {
            Some(credential) => Err(ErrorResponse::revoked(credential)),
            None => Ok(()),
        }
    }

    /// Whether the credential needs no check with [`refuse_unconfirmed`]: only writes do.
    pub fn is_confirmed(&self) -> bool {
        is_read(self.request.method().as_str()) || matches!(self.credential(), None | Some(Credential::Shared))
    }

    /// Returns the host of the hub in the client's request, with a port.
    pub fn host(&self) -> &str {
        self.request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default()
    }
}

/// Returns the https origin of a hub with this host; `None` for a private host such as localhost.
pub fn hub_origin(host: &str) -> Option<String> {
    Endpoint::parse(&format!("https://{host}"), false).ok().map(|origin| origin.origin())
}

pub fn refuse_null(body: &[u8]) -> Result<(), Error> {
    match body.trim_ascii() {
        b"null" => Err(Error::InvalidBody("It is null, not an object.".into())),
        _ => Ok(()),
    }
}

/// Parses a JSON body. An error is either [`Error::InvalidBody`] or [`Error::InvalidField`] with the field.
pub fn parse_body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Error::InvalidBody("It is not valid UTF-8. Encode it as UTF-8.".into()))?;
    match text.trim() {
        "" => read_object("{}"),
        // If a field is required, the error must be that the body is not an object, not that the field is missing.
        "null" => read_object("{}").or_else(|_| read_object(text)),
        _ => read_object(text),
    }
    .map_err(Error::from)
}

/// A query string. A parameter without a value counts as absent. A known parameter that is repeated or has an invalid value is an error
/// that names the parameter. Unknown parameters are ignored.
#[derive(Debug, Default)]
pub struct Query(HashMap<String, Parameter>);

/// The first occurrence of a parameter.
#[derive(Debug)]
struct Parameter {
    value: String,
    /// Whether the parameter is a bare name, without `=`.
    is_bare: bool,
    is_repeated: bool,
}

impl Query {
    /// Parses a query string without its `?`.
    pub fn parse(query: &str) -> Result<Self, Error> {
        let mut parameters: HashMap<String, Parameter> = HashMap::new();
        let encoded_pairs = query.split('&').filter(|pair| !pair.is_empty());
        for (encoded, (key, value)) in encoded_pairs.zip(form_urlencoded::parse(query.as_bytes())) {
            // Checks the encoded text: the parser replaces invalid UTF-8 by U+FFFD, which valid text may contain too.
            if percent_decode_str(encoded).decode_utf8().is_err() {
                return Err(Error::field(&key, format!("Query parameter `{key}` must be percent-encoded UTF-8.")));
            }
            if let Some(parameter) = parameters.get_mut(key.as_ref()) {
                parameter.is_repeated = true;
                continue;
            }
            let is_bare = !encoded.contains('=');
            parameters.insert(key.into_owned(), Parameter { value: value.into_owned(), is_bare, is_repeated: false });
        }
        Ok(Self(parameters))
    }

    /// Returns the value of a parameter, or `None` if it is missing or appears more than once. Ignores errors in other
    /// parameters, because a token is verified before the request is validated.
    pub fn find_unique(query: &str, key: &str) -> Option<String> {
        let mut values =
            form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == key).map(|(_, value)| value);
        let value = values.next().map(String::from);
        value.filter(|_| values.next().is_none())
    }

    /// Returns the value of a parameter; `None` if the parameter is missing or empty.
    pub fn text(&self, key: &str) -> Result<Option<&str>, Error> {
        let parameter = self.find(key)?;
        Ok(parameter.map(|parameter| parameter.value.as_str()).filter(|value| !value.is_empty()))
    }

    /// Returns an integer, which may be written as a float such as `50.0`.
    pub fn number(&self, key: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Error> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let integer = match text.split_once('.') {
            Some((integer, zeros)) if !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0') => integer,
            _ => text,
        };
        let is_decimal = !integer.is_empty() && integer.bytes().all(|byte| byte.is_ascii_digit());
        let number = integer.parse().ok().filter(|number| is_decimal && range.contains(number));
        number.map(Some).ok_or_else(|| {
            let (low, high) = range.into_inner();
            Error::field(key, format!("Query parameter `{key}` must be an integer from {low} to {high}."))
        })
    }

    pub fn limit(&self, default: usize, max: u64) -> Result<usize, Error> {
        let limit = self.number("limit", 1..=max)?;
        Ok(limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(default))
    }

    pub fn cursor<T>(&self, beginning: T, parse: fn(&str) -> Option<T>) -> Result<T, Error> {
        let position = self.text("cursor")?.map_or(Some(beginning), parse);
        let message = "Query parameter `cursor` must be the `nextCursor` of an earlier response.";
        position.ok_or_else(|| Error::field("cursor", message))
    }

    /// Returns a boolean: `true`, `1`, `false` or `0` in any case. A bare name is true.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        let Some(parameter) = self.find(key)? else { return Ok(None) };
        match parameter.value.to_ascii_lowercase().as_str() {
            "" => Ok(parameter.is_bare.then_some(true)),
            "true" | "1" => Ok(Some(true)),
            "false" | "0" => Ok(Some(false)),
            _ => Err(Error::field(key, format!("Query parameter `{key}` must be `true`, `1`, `false` or `0`."))),
        }
    }

    fn find(&self, key: &str) -> Result<Option<&Parameter>, Error> {
        match self.0.get(key) {
            Some(Parameter { is_repeated: true, .. }) => {
                Err(Error::field(key, format!("Query parameter `{key}` appears more than once. Send it once.")))
            }
            parameter => Ok(parameter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_utf_8_is_rejected() {
        for (query, key) in [("path=%ff", "path"), ("a=1&&%c3=2", "\u{fffd}"), ("a=1&path=%ef%bf%bd%ff", "path")] {
            assert!(Query::parse(query).unwrap_err().to_string().contains(&format!("`{key}`")), "{query}");
        }
        assert_eq!(Query::parse("path=%C3%BC").unwrap().text("path"), Ok(Some("ü")));
        // U+FFFD is a valid character.
        for query in ["path=%ef%bf%bd", "path=\u{fffd}", "&path=%EF%BF%BD&"] {
            assert_eq!(Query::parse(query).unwrap().text("path"), Ok(Some("\u{fffd}")), "{query}");
        }
    }
}
