//! The stateless worker: the entry point of every request.

use std::cell::RefCell;
use std::rc::Rc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::future::{Either, select};
use http::HeaderMap;
use js_sys::Promise;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::JsFuture;
use web_sys::{Headers, Request, Response, ResponseInit};
use worker::worker_sys::Context;
use worker::{Env, WebSocketPair};

use super::convert;
use super::glue::{self, Objects};
use super::guard::{self, INTERRUPTED};
use super::object::SocketKind;
use super::settings::{self, AUTH_RATE_LIMIT};
use super::time::{now, sleep};
use super::upload::max_body_bytes;
use crate::http::edge::{Action, Edge, RequestHead, VerifiedToken, longest_body_time_ms, rate_limit_key};
use crate::http::error::ErrorResponse;
use crate::http::extract::is_upload;
use crate::hub::inbound::admission::{
    Admission, BINARY_UNSUPPORTED, FRAME_TOO_LARGE, NO_CONNECT, TOO_MANY_IDLE_FRAMES, TOO_MANY_REFUSALS, admit_frame,
};
use crate::limits::{
    BODY_TIMEOUT_MS, CONNECT_TIMEOUT_MS, DB_STALL_MS, DEFAULT_RPC_TIMEOUT_MS, EDGE_TIMEOUT_MS, FRAME_UPLOAD_WAIT_MS,
    MAX_AUTH_BODY_BYTES, MAX_BODY_BYTES, MAX_IDLE_FRAMES, MAX_QUEUED_FRAME_BYTES, MAX_QUEUED_FRAMES, MAX_REFUSALS,
    MAX_UNACKED_BYTES, MAX_UNACKED_BYTES_WITH_DELTAS, MAX_UNAUTHENTICATED_FRAME_BYTES, OBJECT_TIMEOUT_MARGIN_MS,
};
use crate::model::ids::uuid_v7;
use crate::model::namespace::Namespace;
use crate::wire::engineio::open_frame;

type Result<T> = std::result::Result<T, JsValue>;

thread_local! {
    // The configuration does not change during the lifetime of the isolate.
    static EDGE: RefCell<Option<Rc<Edge>>> = const { RefCell::new(None) };
    static OBJECTS: RefCell<Option<Objects>> = const { RefCell::new(None) };
}

fn edge(env: &Env) -> std::result::Result<Rc<Edge>, String> {
    if let Some(edge) = EDGE.with_borrow(Clone::clone) {
        return Ok(edge);
    }
    let edge = Rc::new(settings::edge(env)?);
    EDGE.set(Some(Rc::clone(&edge)));
    Ok(edge)
}

#[wasm_bindgen]
pub fn fetch(request: Request, env: Env, context: Context) -> Promise {
    guard::initialize();
    let (edge, head) = (edge(&env), convert::request_head(&request));
    // Computed before the response, because error responses need them, too: without them, a browser does not let a page of
    // another origin read a response.
    let cors = edge.as_ref().map_or_else(
        |_| HeaderMap::new(),
        |edge| edge.cors.headers(head.origin.as_deref(), &head.host, head.method == "OPTIONS"),
    );
    let (cors, started_at) = (convert::header_lines(&cors), glue::now());
    let context = Rc::new(context);
    let request_context = Rc::clone(&context);
    let response = guard::guard_worker(
        &cors.clone(),
        &convert::to_promise(async move {
            let ServedResponse { response, authenticated } =
                match serve(edge, &head, request, env, &request_context).await {
                    Ok(served) => served,
                    Err(error) => {
                        worker::console_error!("a request failed: {error:?}");
                        convert::to_js_error(ErrorResponse::hub_unavailable(INTERRUPTED)).into()
                    }
                };
            // CORS does not apply to WebSockets, and the response of an upgrade can't be rebuilt with more headers.
            if head.is_upgrade {
                return Ok(response.into());
            }
            Ok(glue::with_headers(&response, &cors, authenticated.then_some(started_at))?.into())
        }),
    );
    // When its client disconnects, the platform ends a request without dropping its future: reservations and calls would remain.
    // With this it may run for 30 s more.
    let _ = context.wait_until(&response);
    response
}

/// A response, and whether its request had a valid token: only then it has `Server-Timing`.
struct ServedResponse {
    response: Response,
    authenticated: bool,
}

impl From<Response> for ServedResponse {
    fn from(response: Response) -> Self {
        Self { response, authenticated: false }
    }
}

async fn serve(
    edge: std::result::Result<Rc<Edge>, String>,
    head: &RequestHead,
    request: Request,
    env: Env,
    context: &Context,
) -> Result<ServedResponse> {
    let edge = match edge {
        Ok(edge) => edge,
        Err(message) => {
            convert::discard_body(&request).await;
            return Ok(convert::to_js_error(ErrorResponse::not_configured(message)).into());
        }
    };
    let action = edge.route(head, now(), generate_secret).await;
    let authenticated = matches!(action, Action::History(_) | Action::Object(_));
    let response = match action {
        Action::Respond(response) => {
            convert::discard_body(&request).await;
            Ok(convert::to_js_response(&response))
        }
        Action::History(history) => {
            let reading = Box::pin(edge.read_history(&history, &head.query));
            match select(reading, sleep(EDGE_TIMEOUT_MS)).await {
                Either::Left((response, _)) => {
                    convert::discard_body(&request).await;
                    Ok(convert::to_js_response_or_stream(&response, context))
                }
                // The platform does not end the object's requests, which may wait for a stalled database.
                Either::Right(_) => forward_request(&env, &request, &history.namespace, object_timeout_ms(&env)).await,
            }
        }
        Action::Authenticate => {
            let response = authenticate(&edge, &env, &request).await;
            convert::discard_body(&request).await;
            response
        }
        Action::CheckDatabase => check_database(&edge, &env, &request).await,
        Action::WebSocket(VerifiedToken { namespace, expires_at }) => {
            forward_socket(&env, &request, &namespace, SocketKind::Web, expires_at).await
        }
        Action::Object(namespace) => {
            let timeout_ms = if is_upload(&head.method, &head.path) {
                upload_timeout_ms(&env, &request)
            } else {
                object_timeout_ms(&env) + body_time_ms(&request, MAX_BODY_BYTES as u64).min(BODY_TIMEOUT_MS)
            };
            forward_request(&env, &request, &namespace, timeout_ms).await
        }
        Action::Sse(token) => stream_events(&env, &request, &token).await,
        Action::CliSocket { namespace, authenticated } => {
            let kind = if authenticated { SocketKind::AuthenticatedCli } else { SocketKind::Cli };
            forward_socket(&env, &request, &namespace, kind, None).await
        }
        Action::BridgedCliSocket => accept_bridged(edge, env, request, context),
    };
    Ok(ServedResponse { response: response?, authenticated })
}

/// Generates a secret of 32 random bytes; `None` without a random source.
fn generate_secret() -> Option<String> {
    let mut bytes = [0; 32];
    getrandom::getrandom(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

async fn authenticate(edge: &Edge, env: &Env, request: &Request) -> Result<Response> {
    if let Some(refusal) = count_attempt(env, request, "").await? {
        return Ok(refusal);
    }
    let body =
        match convert::read_body(request, convert::declared_length(request), MAX_AUTH_BODY_BYTES, &JsValue::UNDEFINED)
            .await?
        {
            Ok(body) => body,
            Err(error) => return Ok(convert::to_js_error(error)),
        };
    Ok(convert::to_js_response(&edge.authenticate(&body, now(), generate_secret).await))
}

/// `GET /health?deep=1`. Limited like signing in, because it needs no token and makes a database query.
async fn check_database(edge: &Edge, env: &Env, request: &Request) -> Result<Response> {
    if let Some(refusal) = count_attempt(env, request, "health ").await? {
        return Ok(refusal);
    }
    let timeout = sleep(DB_STALL_MS);
    let response = match select(Box::pin(edge.check_database()), timeout).await {
        Either::Left((response, _)) => response,
        Either::Right(_) => {
            ErrorResponse::hub_unavailable("The database did not answer within 5 seconds. Try again.").into_response()
        }
    };
    Ok(convert::to_js_response(&response))
}

/// Counts a request of this client address. Returns the response if there were too many; those with another `prefix` are
/// counted separately.
async fn count_attempt(env: &Env, request: &Request, prefix: &str) -> Result<Option<Response>> {
    let address = request.headers().get("cf-connecting-ip")?.unwrap_or_else(|| "unknown".into());
    let key = prefix.to_owned() + &rate_limit_key(&address);
    if let Ok(limiter) = env.rate_limiter(AUTH_RATE_LIMIT)
        && !limiter.limit(key).await?.success
    {
        return Ok(Some(convert::to_js_error(ErrorResponse::rate_limited(60))));
    }
    Ok(None)
}

async fn forward_request(env: &Env, request: &Request, namespace: &Namespace, timeout_ms: u32) -> Result<Response> {
    wait_for_object(objects(env)?.forward(namespace.as_ref(), "", "", request, timeout_ms)?).await
}

async fn forward_socket(
    env: &Env,
    request: &Request,
    namespace: &Namespace,
    kind: SocketKind,
    expires_at: Option<u64>,
) -> Result<Response> {
    let expires_at = expires_at.map(|at| at.to_string()).unwrap_or_default();
    let (objects, timeout_ms) = (objects(env)?, object_timeout_ms(env));
    wait_for_object(objects.forward(namespace.as_ref(), kind.as_str(), &expires_at, request, timeout_ms)?).await
}

async fn wait_for_object(response: js_sys::Promise) -> Result<Response> {
    let message = match JsFuture::from(response).await {
        Ok(response) if !response.is_undefined() => return Ok(response.into()),
        Ok(_) => "The hub did not answer in time. Try again.",
        Err(error) => {
            worker::console_error!("the object of a namespace failed: {error:?}");
            INTERRUPTED
        }
    };
    Ok(convert::to_js_error(ErrorResponse::hub_unavailable(message)))
}

fn objects(env: &Env) -> Result<Objects> {
    if let Some(objects) = OBJECTS.with_borrow(Clone::clone) {
        return Ok(objects);
    }
    let objects = settings::objects(env)?;
    OBJECTS.set(Some(objects.clone()));
    Ok(objects)
}

/// Returns how long the object may take to answer an upload: as long as the client and the CLI make progress.
fn upload_timeout_ms(env: &Env, request: &Request) -> u32 {
    // `settings::edge` has rejected an invalid value.
    let max_body = max_body_bytes(settings::max_file_bytes(env).unwrap_or_default());
    // The CLI may take as long as the slowest client.
    let transfer_ms = body_time_ms(request, max_body).saturating_mul(2);
    transfer_ms.saturating_add(object_timeout_ms(env) + FRAME_UPLOAD_WAIT_MS)
}

/// Returns how long the client may take to send the body of a request.
fn body_time_ms(request: &Request, max_bytes: u64) -> u32 {
    if request.body().is_none() {
        return 0;
    }
    longest_body_time_ms(convert::declared_length(request).map(|length| length as u64), max_bytes)
}

fn object_timeout_ms(env: &Env) -> u32 {
    thread_local! {
        static TIMEOUT_MS: std::cell::OnceCell<u32> = const { std::cell::OnceCell::new() };
    }
    let compute = || {
        // `settings::edge` has rejected an invalid value.
        let rpc_timeout_ms = settings::rpc_timeout_ms(env).unwrap_or(DEFAULT_RPC_TIMEOUT_MS);
        u32::try_from(rpc_timeout_ms + OBJECT_TIMEOUT_MARGIN_MS).unwrap_or(u32::MAX)
    };
    TIMEOUT_MS.with(|timeout_ms| *timeout_ms.get_or_init(compute))
}

/// Opens a WebSocket to the object and streams its messages to the client as server-sent events.
async fn stream_events(env: &Env, request: &Request, token: &VerifiedToken) -> Result<Response> {
    let VerifiedToken { namespace, expires_at } = token;
    let response = forward_socket(env, request, namespace, SocketKind::Sse, *expires_at).await?;
    let Some(socket) = glue::web_socket(&response) else { return Ok(response) };
    let headers = Headers::new()?;
    headers.set("content-type", "text/event-stream; charset=utf-8")?;
    headers.set("cache-control", "no-store")?;
    headers.set("x-content-type-options", "nosniff")?;
    headers.set("x-accel-buffering", "no")?;
    let init = ResponseInit::new();
    init.set_headers(&headers);
    let stream = glue::event_stream(&socket, MAX_UNACKED_BYTES, MAX_UNACKED_BYTES_WITH_DELTAS);
    Response::new_with_opt_readable_stream_and_init(Some(&stream), &init)
}

/// Accepts the WebSocket of a CLI whose upgrade request does not name a namespace. The worker bridges it: it reads the CONNECT
/// packet, opens a WebSocket to the object of the namespace in its token, and pipes the two sockets to each other.
fn accept_bridged(edge: Rc<Edge>, env: Env, request: Request, context: &Context) -> Result<Response> {
    let pair = WebSocketPair::new()?;
    pair.server.accept()?;
    let mut random = [0; 10];
    getrandom::getrandom(&mut random).map_err(|error| JsValue::from_str(&error.to_string()))?;
    pair.server.send_with_str(open_frame(&uuid_v7(now(), &random)))?;
    let server = pair.server;
    let socket = JsValue::from(server.as_ref());
    let connecting = convert::to_promise(async move {
        if let Err(error) = connect_bridged(&edge, &env, &request, &server).await {
            worker::console_error!("a bridged socket failed: {error:?}");
            let _ = server.close(Some(1011), Some("The hub was interrupted. Reconnect."));
        }
        Ok(JsValue::UNDEFINED)
    });
    context.wait_until(&guard::guard_socket(&connecting, &socket))?;
    Ok(worker::Response::from_websocket(pair.client)?.into())
}

async fn connect_bridged(edge: &Edge, env: &Env, request: &Request, server: &worker::WebSocket) -> Result<()> {
    let socket: &web_sys::WebSocket = server.as_ref();
    let inbox = glue::Inbox::new(
        socket,
        MAX_UNAUTHENTICATED_FRAME_BYTES,
        FRAME_TOO_LARGE,
        MAX_QUEUED_FRAMES,
        MAX_QUEUED_FRAME_BYTES,
    );
    let Some((namespace, connect)) = wait_for_connect(edge, &inbox, server).await? else { return Ok(()) };
    let response = forward_socket(env, request, &namespace, SocketKind::BridgedCli, None).await?;
    match glue::web_socket(&response) {
        Some(object) => inbox.pipe(&connect, &object),
        // Clients reconnect after a close, but not after a CONNECT_ERROR.
        None => server.close(Some(1013), Some("The hub is not available. Reconnect."))?,
    }
    Ok(())
}

/// Waits for a valid CONNECT packet. Returns its namespace and the frame, or `None` when the socket is closed.
async fn wait_for_connect(
    edge: &Edge,
    inbox: &glue::Inbox,
    server: &worker::WebSocket,
) -> Result<Option<(Namespace, String)>> {
    let deadline = now() + CONNECT_TIMEOUT_MS;
    let (mut refusals, mut idle_frames) = (0, 0);
    let (code, reason) = loop {
        let remaining_ms = u32::try_from(deadline.saturating_sub(now())).unwrap_or(0);
        let next = JsFuture::from(inbox.next(remaining_ms)).await?;
        if inbox.closed() {
            return Ok(None);
        }
        if next.is_undefined() || remaining_ms == 0 {
            break (1008, NO_CONNECT);
        }
        let frame = next.as_string();
        let admission = frame.as_deref().map(|frame| admit_frame(&edge.tokens, None, frame));
        match admission.unwrap_or(Admission::Close(BINARY_UNSUPPORTED.0, BINARY_UNSUPPORTED.1)) {
            Admission::Granted { namespace, .. } => return Ok(frame.map(|frame| (namespace, frame))),
            Admission::Refused(refusal) => {
                // Fails on a closing socket; then the next iteration returns.
                let _ = server.send_with_str(refusal);
                refusals += 1;
                if refusals == MAX_REFUSALS {
                    break (1008, TOO_MANY_REFUSALS);
                }
            }
            Admission::Close(code, reason) => break (code, reason),
            Admission::Pong(_) | Admission::Ignored if idle_frames == MAX_IDLE_FRAMES => {
                break (1008, TOO_MANY_IDLE_FRAMES);
            }
            Admission::Pong(pong) => {
                let _ = server.send_with_str(pong);
                idle_frames += 1;
            }
            Admission::Ignored => idle_frames += 1,
        }
    };
    server.close(Some(code), Some(reason))?;
    Ok(None)
}
