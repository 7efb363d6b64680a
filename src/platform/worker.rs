//! The stateless worker: the entry point of every request.

use std::cell::RefCell;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::{Either, join, ready, select};
use js_sys::{Promise, Uint8Array};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::JsFuture;
use web_sys::{Request, RequestInit, Response};
use worker::worker_sys::Context;
use worker::{Env, WebSocketPair};

use super::convert;
use super::glue::{self, Incoming, Objects};
use super::guard::{self, INTERRUPTED};
use super::log::{log_error, write_line};
use super::object::{SocketKind, metrics_response};
use super::settings::{self, AUTH_RATE_LIMIT};
use super::time::{now, sleep};
use super::upload::max_body_bytes;
use crate::auth::token::{Credential, VerifiedToken};
use crate::http::authentication::rate_limit_key;
use crate::http::edge::{Action, Edge, PairingStep, RequestHead, longest_body_time_ms};
use crate::http::error::ErrorResponse;
use crate::http::extract::{MAX_BODY_BYTES, is_upload};
use crate::http::route_patterns;
use crate::hub::core::peers::connections::{Connecting, Upgrade};
use crate::hub::core::peers::handshake::{
    BINARY_UNSUPPORTED, Close, FRAME_TOO_LARGE, MAX_UNAUTHENTICATED_FRAME_BYTES, NO_CONNECT,
};
use crate::hub::core::peers::send_window::MAX_UNACKED_BYTES_WITH_DELTAS;
use crate::limits::{
    BODY_TIMEOUT_MS, DB_RETRY_PERIOD_MS, DB_STALL_MS, DB_TIMEOUT_MS, EDGE_TIMEOUT_MS, FRAME_UPLOAD_SLOT_TIMEOUT_MS,
    RESUME_TIMEOUT_MS,
};
use crate::log::{Level, LogLine};
use crate::model::ids::uuid_v7;
use crate::model::namespace::Namespace;
use crate::wire::engineio::open_frame;

/// The largest body of `POST /api/auth`, of the requests of new devices, and of answers from notifications, in bytes.
const MAX_AUTH_BODY_BYTES: usize = 16 * 1024;
/// How long the worker waits for the object in addition to the timeout of an RPC call, in milliseconds. A request may wait for a
/// stalled database, and the request that resumes a session waits until the session is active.
const OBJECT_TIMEOUT_MARGIN_MS: u64 = DB_RETRY_PERIOD_MS + DB_TIMEOUT_MS + RESUME_TIMEOUT_MS + 5_000;
/// The most unread bytes of all event streams (SSE) of an isolate: twice the largest event. Not in the memory budget.
const MAX_STREAM_BYTES: usize = 16 * 1024 * 1024;

/// The close code and reason when a socket can't be forwarded or its token can't be verified.
const UNAVAILABLE: Close = (1013, "The hub is not available. Reconnect.");

type Result<T> = std::result::Result<T, JsValue>;

thread_local! {
    // The settings do not change during the lifetime of the isolate.
    static STATE: RefCell<Option<Rc<WorkerState>>> = const { RefCell::new(None) };
}

/// The state that all requests of an isolate share, created from the settings.
struct WorkerState {
    edge: Edge,
    objects: Objects,
    /// How long an object may take to respond, without the time for the body of the request.
    object_timeout_ms: u32,
    max_upload_bytes: u64,
}

/// Returns the state of the isolate, or an error for the operator if a setting is invalid.
fn worker_state(env: &Env) -> std::result::Result<Rc<WorkerState>, String> {
    if let Some(state) = STATE.with_borrow(Clone::clone) {
        return Ok(state);
    }
    settings::configure_log(env)?;
    glue::configure_routes(&route_patterns());
    // Also validates the settings that only the objects use: an invalid one then shows in every response, not only in theirs.
    let config = settings::hub_config(env, Namespace::default())?;
    let state = Rc::new(WorkerState {
        object_timeout_ms: u32::try_from(config.rpc_timeout_ms + OBJECT_TIMEOUT_MARGIN_MS).unwrap_or(u32::MAX),
        max_upload_bytes: max_body_bytes(config.uploads.max_file_bytes),
        edge: settings::edge(env, config)?,
        objects: settings::objects(env)?,
    });
    STATE.set(Some(Rc::clone(&state)));
    Ok(state)
}

#[wasm_bindgen]
pub fn fetch(incoming: Incoming, env: Env, context: Context) -> Promise {
    guard::initialize();
    let head = convert::request_head(&incoming);
    let state = match worker_state(&env) {
        Ok(state) => state,
        Err(message) => return not_configured(incoming.request(), message),
    };
    // Computed first: without CORS headers in an error response, a browser does not let a page of another origin read it.
    let cors = state.edge.cors.headers(head.origin.as_deref(), &head.host, head.method == "OPTIONS");
    let cors = convert::header_lines(&cors);
    let request = Rc::new(IncomingRequest { state, head, incoming, env, context });
    let mut routing = Box::pin(Rc::clone(&request).route());
    let action = match guard::with_headers(&cors, || routing.as_mut().now_or_never()) {
        // Most requests. Returns the promise of the object: a wasm future that waits for it would cost 10% more CPU time.
        Some(Action::Object(namespace, token)) => {
            return request.forward(&namespace, token.as_ref(), &cors, true);
        }
        Some(action) => Either::Left(ready(action)),
        None => Either::Right(routing),
    };
    let (served, headers) = (Rc::clone(&request), cors.clone());
    let response = guard::worker_task(&cors).start(async move {
        let (response, has_timing) = match Rc::clone(&served).serve(action.await).await {
            Ok(response) => response,
            Err(error) => {
                log_error("request-interrupted", &format_args!("{error:?}"));
                (convert::to_js_error(ErrorResponse::hub_unavailable(INTERRUPTED)), false)
            }
        };
        // CORS does not apply to WebSockets, and the response of an upgrade can't be rebuilt with more headers.
        if served.head.is_upgrade {
            return Ok(response.into());
        }
        let started_at = has_timing.then(|| served.incoming.started_at());
        Ok(glue::with_headers(&response, &headers, started_at)?.into())
    });
    // When its client disconnects, the platform ends a request without dropping its future, so memory reservations would never be
    // released. With `wait_until`, the request may run for another 30 s.
    let _ = request.context.wait_until(&response);
    response
}

fn not_configured(request: Request, message: String) -> Promise {
    guard::worker_task("").start(async move {
        convert::discard_body(&request).await;
        Ok(convert::to_js_error(ErrorResponse::not_configured(message)).into())
    })
}

struct IncomingRequest {
    state: Rc<WorkerState>,
    head: RequestHead,
    incoming: Incoming,
    env: Env,
    context: Context,
}

impl IncomingRequest {
    async fn route(self: Rc<Self>) -> Action {
        self.state.edge.route(&self.head, now()).await
    }

    /// Returns the response, and whether it gets `Server-Timing`: only responses to a valid token do, except event streams and upgrades.
    async fn serve(self: Rc<Self>, action: Action) -> Result<(Response, bool)> {
        let (edge, request) = (&self.state.edge, &self.incoming.request());
        let has_timing = matches!(action, Action::History(_) | Action::Object(..));
        let response = match action {
            Action::Respond(response) => {
                convert::discard_body(request).await;
                Ok(convert::to_js_response(&response))
            }
            Action::History(history) => {
                self.incoming.set_namespace(history.namespace.as_str());
                let reading = Box::pin(edge.read_history(&history, &self.head.query));
                match select(reading, sleep(EDGE_TIMEOUT_MS)).await {
                    Either::Left((response, _)) => {
                        convert::discard_body(request).await;
                        Ok(convert::to_js_response_or_stream(&response, &self.context))
                    }
                    // The object answers instead: its requests may wait for a stalled database, because the platform does not end them.
                    Either::Right(_) => self.forwarded(&history.namespace, None).await,
                }
            }
            Action::Unchecked(read) => return self.serve_unchecked(*read).await,
            Action::Metrics(None) => Ok(metrics_response(&glue::isolate_metrics())),
            Action::Metrics(Some(namespace)) => self.forwarded(&namespace, None).await,
            action @ (Action::Authenticate | Action::Pair(_) | Action::Answer) => {
                let response = self.authenticate(action).await;
                convert::discard_body(request).await;
                response
            }
            Action::CheckDatabase => self.check_database().await,
            Action::WebSocket(VerifiedToken { namespace, expires_at, credential, .. }) => {
                self.connect(&namespace, SocketKind::Web, expires_at, Some(&credential)).await
            }
            Action::Object(namespace, token) => self.forwarded(&namespace, token.as_ref()).await,
            Action::Sse(token) => self.stream_events(&token).await,
            Action::CliSocket { namespace, credential } => {
                let kind = if credential.is_some() { SocketKind::AuthenticatedCli } else { SocketKind::Cli };
                self.connect(&namespace, kind, None, credential.as_ref()).await
            }
            Action::BridgedCliSocket => self.accept_bridged(),
        };
        Ok((response?, has_timing))
    }

    /// `GET /health?deep=1`. Limited like signing in, because it needs no token and makes a database query.
    async fn check_database(&self) -> Result<Response> {
        if let Some(refusal) = self.count_attempt("health ").await? {
            return Ok(refusal);
        }
        let timeout = sleep(DB_STALL_MS);
        let response = match select(Box::pin(self.state.edge.check_database()), timeout).await {
            Either::Left((response, _)) => response,
            Either::Right(_) => {
                ErrorResponse::hub_unavailable("The database did not answer within 5 seconds. Try again.")
                    .into_response()
            }
        };
        Ok(convert::to_js_response(&response))
    }

    /// Forwards a WebSocket request. `expires_at` is when its token expires.
    async fn connect(
        &self,
        namespace: &Namespace,
        kind: SocketKind,
        expires_at: Option<u64>,
        credential: Option<&Credential>,
    ) -> Result<Response> {
        let expires_at = expires_at.map(|at| at.to_string()).unwrap_or_default();
        let credential = credential.map(Credential::to_string).unwrap_or_default();
        let (objects, timeout_ms) = (&self.state.objects, self.state.object_timeout_ms);
        let response =
            objects.connect(namespace.as_str(), kind.as_ref(), &expires_at, &credential, &self.incoming, timeout_ms);
        Ok(JsFuture::from(response).await?.into())
    }

    /// Forwards a request that opens no WebSocket, and adds headers to the response as [`glue::with_headers`] does.
    fn forward(
        &self,
        namespace: &Namespace,
        token: Option<&VerifiedToken>,
        headers: &str,
        has_timing: bool,
    ) -> Promise {
        let (objects, timeout_ms) = (&self.state.objects, self.object_timeout_ms());
        let credential = token.map(VerifiedToken::header).unwrap_or_default();
        let response =
            objects.forward(namespace.as_str(), &credential, &self.incoming, timeout_ms, headers, has_timing);
        if self.head.method != "GET" {
            // The platform ends a request when its client disconnects. With `wait_until`, the object still receives it.
            let _ = self.context.wait_until(&response);
        }
        response
    }

    async fn forwarded(&self, namespace: &Namespace, token: Option<&VerifiedToken>) -> Result<Response> {
        Ok(JsFuture::from(self.forward(namespace, token, "", false)).await?.into())
    }

    fn object_timeout_ms(&self) -> u32 {
        let timeout_ms = self.state.object_timeout_ms;
        if self.head.method == "GET" {
            return timeout_ms;
        }
        if !is_upload(&self.head.method, &self.head.path) {
            return timeout_ms + self.body_time_ms(MAX_BODY_BYTES as u64).min(BODY_TIMEOUT_MS);
        }
        // Twice, because the CLI may take as long to receive a file as the slowest client to send it.
        let transfer_ms = self.body_time_ms(self.state.max_upload_bytes).saturating_mul(2);
        transfer_ms.saturating_add(timeout_ms + FRAME_UPLOAD_SLOT_TIMEOUT_MS)
    }

    /// Returns how long the client may take to send the body of the request.
    fn body_time_ms(&self, max_bytes: u64) -> u32 {
        let request = self.incoming.request();
        if request.body().is_none() {
            return 0;
        }
        longest_body_time_ms(convert::declared_length(&request).map(|length| length as u64), max_bytes)
    }

    /// Opens a WebSocket to the object and streams its messages to the client as server-sent events.
    async fn stream_events(&self, token: &VerifiedToken) -> Result<Response> {
        let response =
            self.connect(&token.namespace, SocketKind::Sse, token.expires_at, Some(&token.credential)).await?;
        let Some(socket) = glue::web_socket(&response) else { return Ok(response) };
        let namespace = token.namespace.as_str();
        Ok(glue::event_stream(&socket, namespace, MAX_STREAM_BYTES, MAX_UNACKED_BYTES_WITH_DELTAS))
    }

    /// Accepts the WebSocket of a CLI whose upgrade request does not name a namespace. The worker bridges the WebSocket: it reads
    /// the CONNECT packet, opens a second WebSocket to the object of the namespace in the token, and pipes the two to each other.
    fn accept_bridged(self: Rc<Self>) -> Result<Response> {
        let pair = WebSocketPair::new()?;
        pair.server.accept()?;
        let mut random = [0; 10];
        getrandom::getrandom(&mut random).map_err(|error| JsValue::from_str(&error.to_string()))?;
        pair.server.send_with_str(open_frame(&uuid_v7(now(), &random)))?;
        let server = pair.server;
        let socket = JsValue::from(server.as_ref());
        let incoming = Rc::clone(&self);
        let connecting = guard::frame_task(&socket).start(async move {
            if let Err(error) = incoming.connect_bridged(&server).await {
                log_error("socket-failed", &format_args!("{error:?}"));
                let _ = server.close(Some(1011), Some("The hub was interrupted. Reconnect."));
            }
            Ok(JsValue::UNDEFINED)
        });
        self.context.wait_until(&connecting)?;
        Ok(worker::Response::from_websocket(pair.client)?.into())
    }

    async fn connect_bridged(&self, server: &worker::WebSocket) -> Result<()> {
        let socket: &web_sys::WebSocket = server.as_ref();
        let inbox = glue::Inbox::new(socket, MAX_UNAUTHENTICATED_FRAME_BYTES, FRAME_TOO_LARGE);
        let Some((namespace, connect)) = self.wait_for_connect(&inbox, server).await? else { return Ok(()) };
        let response = self.connect(&namespace, SocketKind::BridgedCli, None, None).await?;
        match glue::web_socket(&response) {
            Some(object) => inbox.pipe(&connect, &object),
            // Clients reconnect after a close, but not after a CONNECT_ERROR.
            None => server.close(Some(UNAVAILABLE.0), Some(UNAVAILABLE.1))?,
        }
        Ok(())
    }

    /// Waits for a valid CONNECT packet. Returns its namespace and the frame, or `None` when the socket is closed.
    async fn wait_for_connect(
        &self,
        inbox: &glue::Inbox,
        server: &worker::WebSocket,
    ) -> Result<Option<(Namespace, String)>> {
        let (authentication, client) = (&self.state.edge.authentication, self.head.client.as_str());
        let mut connecting = Connecting::new(now(), Upgrade::Unauthenticated);
        let (code, reason) = loop {
            let remaining_ms = u32::try_from(connecting.expires_at().saturating_sub(now())).unwrap_or(0);
            let message = JsFuture::from(inbox.next(remaining_ms)).await?;
            if inbox.closed() {
                return Ok(None);
            }
            if message.is_undefined() || remaining_ms == 0 {
                break NO_CONNECT;
            }
            let Some(frame) = message.as_string() else { break BINARY_UNSUPPORTED };
            let outcome = match connecting.receive(&frame) {
                Err(outcome) => outcome,
                Ok(check) => {
                    let granted = match check.auth.token.as_deref() {
                        Some(token) => match authentication.verify(token, Some(client), now(), false).await {
                            Err(error) if error.is_unavailable() => break UNAVAILABLE,
                            verified => verified.ok().map(|verified| (verified.namespace, verified.credential)),
                        },
                        None => None,
                    };
                    match check.decide(None, granted) {
                        Ok(verified) => return Ok(Some((verified.namespace, frame))),
                        Err(outcome) => outcome,
                    }
                }
            };
            if outcome.is_refused {
                write_line(None, &LogLine::new(Level::Warn, "connect-refused").text("client", client));
            }
            if let Some(reply) = outcome.reply {
                // Fails if the socket is closing; the next iteration returns then.
                let _ = server.send_with_str(reply);
            }
            match outcome.next {
                Ok(next) => connecting = next,
                Err(close) => break close,
            }
        };
        server.close(Some(code), Some(reason))?;
        Ok(None)
    }

    /// Performs a read while its token is checked. Discards the response if the token is not valid.
    async fn serve_unchecked(self: Rc<Self>, read: Action) -> Result<(Response, bool)> {
        let check = self.state.edge.verify_token(&self.head, now());
        let (served, checked) = join(Box::pin(Rc::clone(&self).serve(read)), check).await;
        let Err(error) = checked else { return served };
        if let Some(body) = served.ok().and_then(|(response, _)| response.body()) {
            // Frees what the object holds for the response.
            let _ = body.cancel();
        }
        Ok((convert::to_js_error(error), false))
    }

    /// Signs in, handles a request of a new device, or forwards an answer from a notification.
    async fn authenticate(&self, action: Action) -> Result<Response> {
        let prefix = match action {
            // A device polls for minutes, so its polls do not count as guesses.
            Action::Pair(PairingStep::Poll) => "poll ",
            Action::Pair(_) => "pair ",
            Action::Answer => "answer ",
            _ => "",
        };
        if let Some(refusal) = self.count_attempt(prefix).await? {
            return Ok(refusal);
        }
        let request = self.incoming.request();
        let declared = convert::declared_length(&request);
        let body = match convert::read_body(&request, declared, MAX_AUTH_BODY_BYTES, &JsValue::UNDEFINED).await? {
            Ok(body) => body,
            Err(error) => return Ok(convert::to_js_error(error)),
        };
        let edge = &self.state.edge;
        let response = match action {
            Action::Answer => match edge.verify_answer(&body, now()).await {
                Ok(namespace) => return self.forward_answer(&namespace, &body).await,
                Err(error) => return Ok(convert::to_js_error(error)),
            },
            Action::Pair(step) => edge.pair(step, &self.head, &body, now()).await,
            _ => edge.authentication.sign_in(&body, now()).await,
        };
        Ok(convert::to_js_response(&response))
    }

    /// Counts a request of this client address, separately for each `prefix`. Returns a 429 response if there were too many.
    async fn count_attempt(&self, prefix: &str) -> Result<Option<Response>> {
        let key = prefix.to_owned() + &rate_limit_key(&self.head.client);
        if let Ok(limiter) = self.env.rate_limiter(AUTH_RATE_LIMIT)
            && !limiter.limit(key).await?.success
        {
            return Ok(Some(convert::to_js_error(ErrorResponse::rate_limited(60))));
        }
        Ok(None)
    }

    /// Forwards an answer from a notification, whose body was read, in a new request.
    async fn forward_answer(&self, namespace: &Namespace, body: &[u8]) -> Result<Response> {
        let init = RequestInit::new();
        init.set_method("POST");
        init.set_body(&Uint8Array::from(body));
        self.incoming.set_request(&Request::new_with_str_and_init(&self.incoming.request().url(), &init)?);
        self.forwarded(namespace, None).await
    }
}
