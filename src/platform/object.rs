//! The Durable Object of a namespace: starts the hub on the first event and passes events to it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use js_sys::{JsString, Promise};
use strum::{AsRefStr, EnumString};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{Request, Response};
use worker::worker_sys::DurableObjectState;
use worker::{Env, State, WebSocketPair};

use super::convert;
use super::glue::{self, CREDENTIAL_HEADERS, Meter, OBJECT_HEADERS, ObjectSocket, SUBSCRIPTION_HEADERS};
use super::guard;
use super::log::log_error;
use super::runtime::{ObjectRuntime, log_storage_error, to_object_socket};
use super::settings;
use super::upload::JsUpload;
use crate::auth::token::{Credential, SecretId};
use crate::http::edge::{METRICS_PATH, split_url};
use crate::http::error::ErrorResponse;
use crate::http::extract::{ExternalBody, is_credential_sent, is_upload, refuse_unconfirmed};
use crate::http::{events, respond};
use crate::hub::Hub;
use crate::hub::core::peers::connections::Upgrade;
use crate::hub::core::peers::handshake::{MAX_UNAUTHENTICATED_FRAME_BYTES, NO_CONNECT};
use crate::hub::core::peers::subscription::{Format, Subscription};
use crate::hub::core::ports::{ConnId, Runtime};
use crate::hub::core::storage_keys;
use crate::hub::wake;
use crate::model::namespace::Namespace;

/// The delay of an alarm that fires while the configuration is invalid, in milliseconds.
const INVALID_CONFIG_DELAY_MS: u64 = 10_000;

type Result<T> = std::result::Result<T, JsValue>;

/// The reason of a close when the hub does not run in this object.
const RECONNECT: &str = "The hub was interrupted. Reconnect.";

/// The kind of a WebSocket to the object. The worker sends it in a request header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, AsRefStr)]
#[strum(serialize_all = "kebab-case")]
pub enum SocketKind {
    /// From a CLI that authenticates with CONNECT.
    Cli,
    /// From a CLI with a valid token in the upgrade request.
    AuthenticatedCli,
    /// From the worker, which has accepted the WebSocket of a CLI.
    BridgedCli,
    /// From a web client.
    Web,
    /// From the worker, which copies the messages to an event stream (SSE).
    Sse,
}

/// The method, URL and headers of a request to the object.
struct ObjectRequest<'a> {
    method: &'a str,
    url: &'a str,
    namespace: &'a str,
    socket: &'a str,
    content_length: Option<usize>,
}

impl<'a> ObjectRequest<'a> {
    fn parse(head: &'a str) -> Self {
        let mut lines = head.split('\n');
        let mut next_line = || lines.next().unwrap_or_default();
        let (method, url, namespace, socket) = (next_line(), next_line(), next_line(), next_line());
        Self { method, url, namespace, socket, content_length: next_line().parse().ok() }
    }
}

enum StartError {
    /// The object does not know its namespace: it has received no authenticated request.
    UnknownNamespace,
    /// `HUB_JURISDICTION` was changed, and the namespace has another object.
    Replaced,
    InvalidConfig(String),
}

impl From<String> for StartError {
    fn from(message: String) -> Self {
        Self::InvalidConfig(message)
    }
}

impl From<StartError> for ErrorResponse {
    fn from(error: StartError) -> Self {
        match error {
            StartError::UnknownNamespace => Self::not_configured("This object does not know its namespace yet."),
            StartError::Replaced => Self::object_replaced(),
            StartError::InvalidConfig(message) => Self::not_configured(message),
        }
    }
}

/// The hub of the object, while the object is in memory.
struct RunningHub {
    hub: Arc<Hub>,
    runtime: Arc<ObjectRuntime>,
}

/// The Durable Object class: one instance per namespace, the only writer of its data. Each method is guarded against a panic.
#[wasm_bindgen]
pub struct NamespaceHub(Rc<NamespaceObject>);

#[wasm_bindgen]
impl NamespaceHub {
    #[wasm_bindgen(constructor)]
    pub fn new(state: DurableObjectState, env: Env) -> Self {
        guard::initialize();
        let js_state = JsValue::from(state);
        let state = State::from(js_state.clone().unchecked_into::<DurableObjectState>());
        Self(Rc::new(NamespaceObject { js_state, state, env, meter: Meter::new(), running: RefCell::new(None) }))
    }

    /// Handles a request with the headers of [`OBJECT_HEADERS`].
    pub fn fetch(&self, request: Request) -> Promise {
        let object = Rc::clone(&self.0);
        guard::object_task().start(async move { object.fetch(request).await.map(JsValue::from) })
    }

    /// Handles a frame: a string or an `ArrayBuffer`. Most frames are processed synchronously and need no promise.
    #[wasm_bindgen(js_name = webSocketMessage)]
    pub fn web_socket_message(
        &self,
        socket: ObjectSocket,
        frame: JsValue,
    ) -> std::result::Result<Option<Promise>, JsValue> {
        let object = Rc::clone(&self.0);
        let js_socket = JsValue::from(&socket);
        let mut process =
            Box::pin(async move { object.on_message(&socket, &frame).await.map(|()| JsValue::UNDEFINED) });
        match guard::with_socket(&js_socket, || process.as_mut().now_or_never()) {
            Some(result) => result.map(|_| None),
            None => Ok(Some(guard::frame_task(&js_socket).start(process))),
        }
    }

    #[wasm_bindgen(js_name = webSocketClose)]
    pub fn web_socket_close(&self, socket: ObjectSocket) {
        self.0.on_disconnect(&socket);
        // Completes the closing handshake. Fails on a closed socket.
        let _ = socket.close(1000, "");
    }

    #[wasm_bindgen(js_name = webSocketError)]
    pub fn web_socket_error(&self, socket: ObjectSocket) {
        self.0.on_disconnect(&socket);
    }

    /// Writes the data points of the metrics to Analytics Engine, if they have changed. The binding `METRICS` must exist.
    #[wasm_bindgen(js_name = reportMetrics)]
    pub fn report_metrics(&self) {
        let metrics = self.0.running.borrow().as_ref().and_then(|running| running.hub.take_metrics());
        if let Some((namespace_hash, [changes, gauges])) = metrics {
            glue::write_data_points(&self.0.env, &namespace_hash, &changes, &gauges);
        }
    }

    pub fn alarm(&self) -> Promise {
        let object = Rc::clone(&self.0);
        guard::object_task().start(async move { object.on_alarm().await.map(|()| JsValue::UNDEFINED) })
    }
}

struct NamespaceObject {
    /// The JavaScript object behind `state`.
    js_state: JsValue,
    state: State,
    env: Env,
    meter: Meter,
    running: RefCell<Option<Rc<RunningHub>>>,
}

impl NamespaceObject {
    /// Returns the hub, started on the first call. `namespace`, from a request, is used until the object has stored its namespace.
    fn start(&self, namespace: Option<&str>) -> std::result::Result<Rc<RunningHub>, StartError> {
        if let Some(running) = self.running.borrow().as_ref() {
            return Ok(Rc::clone(running));
        }
        settings::configure_log(&self.env)?;
        let (runtime, sockets) = ObjectRuntime::new(&self.state, self.js_state.clone(), &self.meter);
        let stored = runtime.kv_get(storage_keys::NAMESPACE);
        let name = stored.as_deref().or(namespace).ok_or(StartError::UnknownNamespace)?;
        let namespace = Namespace::parse(name).ok_or_else(|| "This object's namespace is malformed.".to_owned())?;
        let config = settings::hub_config(&self.env, namespace)?;
        // Two objects of a namespace would reject each other's writes.
        if !settings::objects(&self.env)?.contains(&self.js_state, name) {
            return Err(StartError::Replaced);
        }
        let runtime = Arc::new(runtime);
        let hub = Hub::wake(
            config,
            &settings::memory_budget(),
            settings::databases(&self.env, Some(&self.meter), |db| db)?,
            Arc::clone(&runtime) as Arc<dyn Runtime>,
            sockets,
        );
        let running = Rc::new(RunningHub { hub, runtime });
        self.running.replace(Some(Rc::clone(&running)));
        Ok(running)
    }

    async fn respond(&self, running: &RunningHub, request: &Request, head: ObjectRequest<'_>) -> Result<Response> {
        match head.socket.parse().ok() {
            Some(SocketKind::Web) => self.subscribe(running, request, &head, Format::Json).await,
            Some(SocketKind::Sse) => self.subscribe(running, request, &head, Format::Sse).await,
            Some(SocketKind::Cli) => self.open_cli(running, Upgrade::Unauthenticated, None),
            Some(SocketKind::AuthenticatedCli) => {
                self.open_cli(running, Upgrade::Authenticated, read_credential(request).0.as_ref())
            }
            Some(SocketKind::BridgedCli) => self.open_cli(running, Upgrade::Bridged, None),
            None if split_url(head.url).1 == METRICS_PATH => Ok(metrics_response(&running.hub.metrics_text())),
            None => match self.to_router_request(running, request, &head).await? {
                Ok(request) => {
                    let response = respond(&running.hub, request).await;
                    Ok(convert::to_js_response_or_stream(&response, &self.js_state))
                }
                Err(error) => Ok(convert::to_js_error(error)),
            },
        }
    }

    /// Converts a request for the router. An upload gets a handle to its body, any other request gets the body itself.
    async fn to_router_request(
        &self,
        running: &RunningHub,
        request: &Request,
        head: &ObjectRequest<'_>,
    ) -> Result<std::result::Result<http::Request<Bytes>, ErrorResponse>> {
        let (_, path, _) = split_url(head.url);
        let mut converted = match is_upload(head.method, path) {
            false => {
                convert::to_router_request(request, head.method, head.url, head.content_length, &running.hub).await?
            }
            true => convert::to_bodiless_request(head.method, head.url).map(|mut converted| {
                let body = ExternalBody(Arc::new(JsUpload::new(request, Arc::clone(&running.runtime))));
                converted.extensions_mut().insert(body);
                converted
            }),
        };
        if let Ok(converted) = &mut converted
            && is_credential_sent(head.method, path)
            && let (Some(credential), secret) = read_credential(request)
        {
            converted.extensions_mut().insert(credential);
            secret.map(|secret| converted.extensions_mut().insert(secret));
        }
        Ok(converted)
    }

    fn open_cli(&self, running: &RunningHub, upgrade: Upgrade, credential: Option<&Credential>) -> Result<Response> {
        let has_room = running.hub.has_room_for_cli(upgrade);
        let Some((response, conn)) = self.accept(running, has_room)? else { return Ok(too_many_sockets()) };
        running.hub.socket(conn).open_cli(upgrade, credential);
        Ok(response)
    }

    async fn subscribe(
        &self,
        running: &RunningHub,
        request: &Request,
        head: &ObjectRequest<'_>,
        format: Format,
    ) -> Result<Response> {
        let (_, _, query) = split_url(head.url);
        let lines = glue::read_head(request, SUBSCRIPTION_HEADERS);
        let mut headers = lines.split('\n').skip(2);
        let expires_at = headers.next().and_then(|at| at.parse().ok());
        let credential = headers.next().and_then(Credential::parse);
        let last_event_id = headers.next().filter(|id| !id.is_empty()).map(str::to_owned);
        match events::parse_request(&running.hub, query, last_event_id, format).await {
            Ok((subscription, last_event_id)) => {
                // The last await: after it, a revocation closes the socket.
                if let Err(error) = refuse_unconfirmed(&running.hub, credential.as_ref()).await {
                    return Ok(convert::to_js_error(error));
                }
                let accepted = self.accept(running, running.hub.has_room_for_socket())?;
                let Some((response, conn)) = accepted else { return Ok(too_many_sockets()) };
                let token_device = credential.and_then(|credential| credential.device().map(str::to_owned));
                let subscription = Subscription { expires_at, token_device, ..subscription };
                running.hub.subscribe(conn, subscription, last_event_id.as_deref());
                Ok(response)
            }
            Err(error) => Ok(convert::to_js_error(error.into())),
        }
    }

    /// Accepts a hibernatable WebSocket; `None` without room, or if the platform refuses the socket.
    fn accept(&self, running: &RunningHub, has_room: bool) -> Result<Option<(Response, ConnId)>> {
        let pair = has_room.then(WebSocketPair::new).transpose()?;
        // `State::accept_web_socket` panics if the platform refuses the socket.
        let state: &DurableObjectState = self.js_state.unchecked_ref();
        let accepted = pair.filter(|pair| state.accept_websocket(pair.server.as_ref()).is_ok());
        let Some(pair) = accepted else { return Ok(None) };
        let conn = running.runtime.insert_socket(to_object_socket(&pair.server));
        Ok(Some((worker::Response::from_websocket(pair.client)?.into(), conn)))
    }

    fn close_all_sockets(&self, code: u16, reason: &str) {
        let (runtime, sockets) = ObjectRuntime::new(&self.state, self.js_state.clone(), &self.meter);
        sockets.iter().for_each(|(conn, _)| runtime.close(*conn, code, reason));
    }

    /// Closes all sockets, and drops the hub: the next request starts a new one.
    async fn restart(&self, running: &RunningHub) {
        self.close_all_sockets(1012, RECONNECT);
        self.running.replace(None);
        if running.hub.is_unused() {
            let _ = self.state.storage().delete_all().await.inspect_err(log_storage_error);
        } else {
            // The new hub sets the alarm.
            let _ = self.start(None);
        }
    }

    fn on_disconnect(&self, socket: &ObjectSocket) {
        if let Ok(running) = self.start(None)
            && let Some(conn) = socket.connection()
        {
            running.hub.socket(conn).on_close();
            running.runtime.remove_socket(conn);
        }
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        let lines = glue::read_head(&request, OBJECT_HEADERS);
        let head = ObjectRequest::parse(&lines);
        // WebSocket requests are not measured, because their clients may have no valid token.
        let started = head.socket.is_empty().then(|| self.meter.start());
        let response = self.handle(&request, head).await?;
        if let Some(started) = started {
            self.meter.finish(&started, &response);
        }
        Ok(response)
    }

    async fn handle(&self, request: &Request, head: ObjectRequest<'_>) -> Result<Response> {
        match self.start(Some(head.namespace).filter(|name| !name.is_empty())) {
            Ok(running) => {
                // An operator may ask for the metrics of a namespace that does not exist.
                if head.socket != SocketKind::Cli.as_ref() && split_url(head.url).1 != METRICS_PATH {
                    running.hub.store_namespace();
                }
                if !head.socket.is_empty() && running.hub.is_closed() {
                    return Ok(convert::to_js_error(ErrorResponse::namespace_closed()));
                }
                let response = self.respond(&running, request, head).await;
                convert::discard_body(request).await;
                if running.hub.take_restart_request() {
                    self.restart(&running).await;
                }
                response
            }
            Err(error) => Ok(convert::to_js_error(error.into())),
        }
    }

    /// Passes a frame to the hub. Copies a large frame into wasm memory only if the hub has memory for it.
    async fn on_message(&self, socket: &ObjectSocket, frame: &JsValue) -> Result<()> {
        let Ok(running) = self.start(None) else {
            self.close_all_sockets(1012, RECONNECT);
            return Ok(());
        };
        let Some(conn) = socket.connection() else { return Ok(()) };
        let socket = running.hub.socket(conn);
        if let Some(text) = glue::small_text(frame, MAX_UNAUTHENTICATED_FRAME_BYTES) {
            socket.on_text(text).await;
        } else if let Some(text) = frame.dyn_ref::<JsString>() {
            if let Some(admitted) = socket.admit_frame(text.length() as usize).await {
                socket.on_admitted_text(admitted, convert::copy_to_wasm(text)).await;
            }
        } else {
            socket.on_binary();
        }
        Ok(())
    }

    async fn on_alarm(&self) -> Result<()> {
        let is_unused = match self.start(None) {
            Ok(running) => {
                running.hub.on_alarm();
                running.hub.is_unused()
            }
            Err(StartError::UnknownNamespace) => {
                self.close_all_sockets(NO_CONNECT.0, NO_CONNECT.1);
                true
            }
            Err(StartError::Replaced) => {
                let (runtime, sockets) = ObjectRuntime::new(&self.state, self.js_state.clone(), &self.meter);
                wake::retire(&runtime, &sockets)
            }
            // Timers and pushes in the storage must continue once the configuration is valid.
            Err(StartError::InvalidConfig(message)) => {
                log_error("alarm-delayed", &message);
                self.state.storage().set_alarm(Duration::from_millis(INVALID_CONFIG_DELAY_MS)).await?;
                false
            }
        };
        if is_unused {
            // The platform removes an object only if its storage is empty. Without this call, the alarm that fired leaves metadata.
            let _ = self.state.storage().delete_all().await.inspect_err(log_storage_error);
        }
        Ok(())
    }
}

pub fn metrics_response(text: &str) -> Response {
    glue::create_response(200, "content-type\ntext/plain; version=0.0.4\ncache-control\nno-store\n", text.as_bytes())
}

/// Returns the credential of the token of a request, and the id of the secret that the token was made from.
fn read_credential(request: &Request) -> (Option<Credential>, Option<SecretId>) {
    let lines = glue::read_head(request, CREDENTIAL_HEADERS);
    // After the method and the URL.
    let mut headers = lines.split('\n').skip(2);
    let credential = headers.next().and_then(Credential::parse);
    (credential, headers.next().filter(|id| !id.is_empty()).map(|id| SecretId(id.to_owned())))
}

fn too_many_sockets() -> Response {
    let error = "Too many sockets are open or opening at once. Try again in a few seconds.";
    convert::to_js_error(ErrorResponse::hub_unavailable(error))
}
