//! The stateless worker: the entry of every request.

use std::cell::RefCell;
use std::rc::Rc;

use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::future::LocalBoxFuture;
use http::HeaderMap;
use js_sys::Promise;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::JsFuture;
use web_sys::{Headers, Request, Response, ResponseInit};
use worker::worker_sys::Context;
use worker::{Env, WebSocketPair};

use super::convert;
use super::glue;
use super::guard::{self, INTERRUPTED};
use super::object::SocketUse;
use super::runtime::now;
use super::settings::{self, AUTH_RATE_LIMIT, HUB};
use crate::http::edge::{Action, Bearer, Edge, RequestHead};
use crate::http::error::ErrorResponse;
use crate::http::extract::is_upload;
use crate::http::finalize;
use crate::hub::inbound::admission::{
    Admission, FRAME_TOO_LARGE, NO_CONNECT, TOO_MANY_IDLE_FRAMES, TOO_MANY_REFUSALS, admission, binary_refusal,
    greeting,
};
use crate::hub::limits::{
    CONNECT_TIMEOUT_MS, DEFAULT_RPC_TIMEOUT_MS, MAX_IDLE_FRAMES, MAX_REFUSALS, MAX_UNAUTHENTICATED_FRAME_BYTES,
};
use crate::model::ids::uuid_v7;
use crate::model::namespace::Namespace;

type Result<T> = std::result::Result<T, JsValue>;

/// The largest body of `POST /api/auth`, in bytes.
const MAX_AUTH_BODY: usize = 16 * 1024;
/// How much longer than a call to a CLI a request to the object may take, in milliseconds: a resume waits 15 s more.
const OBJECT_GRACE_MS: u64 = 20_000;
/// How long an upload may take, from its first byte to the CLI's answer, in milliseconds.
const UPLOAD_LIMIT_MS: u32 = 15 * 60_000;

thread_local! {
    /// The configuration does not change while the isolate lives.
    static EDGE: RefCell<Option<Rc<Edge>>> = const { RefCell::new(None) };
}

fn edge(env: &Env) -> std::result::Result<Rc<Edge>, String> {
    if let Some(edge) = EDGE.with_borrow(Clone::clone) {
        return Ok(edge);
    }
    let edge = Rc::new(settings::edge(env)?);
    EDGE.set(Some(Rc::clone(&edge)));
    Ok(edge)
}

/// Every request to the hub.
#[wasm_bindgen]
pub fn fetch(request: Request, env: Env, context: Context) -> Promise {
    guard::prepare();
    let (edge, head) = (edge(&env), convert::head(&request));
    // Known before anything can go wrong: a page of another origin is to see what did.
    let cors = edge.as_ref().map_or_else(
        |_| HeaderMap::new(),
        |edge| edge.cors.headers(head.origin.as_deref(), &head.host, head.method == "OPTIONS"),
    );
    let instead = convert::lines(&cors);
    guard::answered(
        &instead,
        &convert::promise(async move {
            let response = match serve(edge, &head, request, env, &context).await {
                Ok(response) => response,
                Err(error) => {
                    worker::console_error!("a request failed: {error:?}");
                    respond(ErrorResponse::hub_unavailable(INTERRUPTED).into_response()).await
                }
            };
            // Browsers ask no leave for a WebSocket, whose answer cannot be made again with more headers.
            let response = if head.is_upgrade { response } else { convert::add_headers(response, &cors)? };
            Ok(response.into())
        }),
    )
}

async fn serve(
    edge: std::result::Result<Rc<Edge>, String>,
    head: &RequestHead,
    request: Request,
    env: Env,
    context: &Context,
) -> Result<Response> {
    let edge = match edge {
        Ok(edge) => edge,
        Err(message) => return Ok(respond(ErrorResponse::not_configured(message).into_response()).await),
    };
    match edge.route(head, now(), fresh_secret).await {
        Action::Respond(response) => Ok(convert::any_response(&finalize(response).await, context)),
        Action::Authenticate => authenticate(&edge, &env, &request).await,
        Action::WebSocket(Bearer { namespace, expires_at }) => {
            socket_to_object(&env, &request, &namespace, SocketUse::Web, expires_at).await
        }
        Action::Object(namespace) => {
            let is_upload = is_upload(&head.method, &head.path);
            let limit = if is_upload { UPLOAD_LIMIT_MS } else { limit_ms(&env) };
            to_object(&env, &request, &namespace, limit).await
        }
        Action::Sse(bearer) => stream(&env, &request, &bearer).await,
        Action::CliSocket { namespace, authenticated } => {
            let socket_use = if authenticated { SocketUse::AuthenticatedCli } else { SocketUse::Cli };
            socket_to_object(&env, &request, &namespace, socket_use, None).await
        }
        Action::BridgedCliSocket => bridge(edge, env, request, context),
    }
}

/// 32 random bytes as text; none without a random source: what was offered once is kept.
fn fresh_secret() -> Option<String> {
    let mut bytes = [0; 32];
    getrandom::getrandom(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

fn respond(response: axum::response::Response) -> LocalBoxFuture<'static, Response> {
    Box::pin(async move { convert::response(&finalize(response).await) })
}

async fn authenticate(edge: &Edge, env: &Env, request: &Request) -> Result<Response> {
    let address = request.headers().get("cf-connecting-ip")?.unwrap_or_else(|| "unknown".into());
    if let Ok(limiter) = env.rate_limiter(AUTH_RATE_LIMIT)
        && !limiter.limit(address).await?.success
    {
        return Ok(respond(ErrorResponse::rate_limited(60).into_response()).await);
    }
    let body = match convert::body(request, MAX_AUTH_BODY).await? {
        Ok(body) => body,
        Err(refusal) => return Ok(respond(refusal.into_response()).await),
    };
    Ok(respond(edge.authenticate(&body, now(), fresh_secret).await).await)
}

/// Carries a request to the namespace's object. One that does not answer within `limit` ms is taken for broken.
async fn to_object(env: &Env, request: &Request, namespace: &Namespace, limit: u32) -> Result<Response> {
    answered(glue::carry(&objects(env)?, namespace.as_ref(), "", "", request, limit)?).await
}

/// Carries a request for a socket to the namespace's object: what the socket is for, and when its token is good no more.
async fn socket_to_object(
    env: &Env,
    request: &Request,
    namespace: &Namespace,
    socket_use: SocketUse,
    expires_at: Option<u64>,
) -> Result<Response> {
    let expires_at = expires_at.map(|at| at.to_string()).unwrap_or_default();
    let (objects, word) = (objects(env)?, socket_use.word());
    answered(glue::carry(&objects, namespace.as_ref(), word, &expires_at, request, limit_ms(env))?).await
}

async fn answered(answer: js_sys::Promise) -> Result<Response> {
    let message = match JsFuture::from(answer).await {
        Ok(answer) if !answer.is_undefined() => return Ok(answer.into()),
        Ok(_) => "The hub did not answer in time. Try again.",
        Err(error) => {
            worker::console_error!("the object of a namespace failed: {error:?}");
            INTERRUPTED
        }
    };
    Ok(respond(ErrorResponse::hub_unavailable(message).into_response()).await)
}

/// The binding of the namespaces' objects.
fn objects(env: &Env) -> Result<JsValue> {
    js_sys::Reflect::get(env, &JsValue::from_str(HUB))
}

/// How long the object may take to answer.
fn limit_ms(env: &Env) -> u32 {
    thread_local! {
        static LIMIT: std::cell::OnceCell<u32> = const { std::cell::OnceCell::new() };
    }
    let read = || {
        // A wrong one was refused with the first request.
        let call = settings::rpc_timeout_ms(env).unwrap_or(DEFAULT_RPC_TIMEOUT_MS);
        u32::try_from(call + OBJECT_GRACE_MS).unwrap_or(u32::MAX)
    };
    LIMIT.with(|limit| *limit.get_or_init(read))
}

/// An event stream: a socket to the object, copied to the client.
async fn stream(env: &Env, request: &Request, bearer: &Bearer) -> Result<Response> {
    let Bearer { namespace, expires_at } = bearer;
    let answer = socket_to_object(env, request, namespace, SocketUse::Sse, *expires_at).await?;
    let Some(socket) = glue::socket_of(&answer) else { return Ok(answer) };
    let headers = Headers::new()?;
    headers.set("content-type", "text/event-stream; charset=utf-8")?;
    headers.set("cache-control", "no-store")?;
    headers.set("x-content-type-options", "nosniff")?;
    headers.set("x-accel-buffering", "no")?;
    let init = ResponseInit::new();
    init.set_headers(&headers);
    Response::new_with_opt_readable_stream_and_init(Some(&glue::event_stream(&socket)), &init)
}

/// A CLI whose namespace only its CONNECT packet tells: the worker takes the socket, greets the client, reads CONNECT,
/// opens a socket to the object, and from then on passes everything through.
fn bridge(edge: Rc<Edge>, env: Env, request: Request, context: &Context) -> Result<Response> {
    let pair = WebSocketPair::new()?;
    pair.server.accept()?;
    let mut random = [0; 10];
    getrandom::getrandom(&mut random).map_err(|error| JsValue::from_str(&error.to_string()))?;
    pair.server.send_with_str(greeting(&uuid_v7(now(), &random)))?;
    let server = pair.server;
    let socket = JsValue::from(server.as_ref());
    let opening = convert::promise(async move {
        if let Err(error) = carry(&edge, &env, &request, &server).await {
            worker::console_error!("a bridged socket failed: {error:?}");
            let _ = server.close(Some(1011), Some("The hub was interrupted, please reconnect"));
        }
        Ok(JsValue::UNDEFINED)
    });
    context.wait_until(&guard::heard(&opening, &socket))?;
    Ok(worker::Response::from_websocket(pair.client)?.into())
}

async fn carry(edge: &Edge, env: &Env, request: &Request, server: &worker::WebSocket) -> Result<()> {
    let socket: &web_sys::WebSocket = server.as_ref();
    let inbox = glue::Inbox::new(socket, MAX_UNAUTHENTICATED_FRAME_BYTES, FRAME_TOO_LARGE);
    let Some((namespace, connect)) = connect_packet(edge, &inbox, server).await? else { return Ok(()) };
    let answer = socket_to_object(env, request, &namespace, SocketUse::BridgedCli, None).await?;
    match glue::socket_of(&answer) {
        Some(object) => inbox.join_with(&connect, &object),
        // A client comes back by itself after a close, which a CONNECT_ERROR would keep it from.
        None => server.close(Some(1013), Some("The hub is not available, try again"))?,
    }
    Ok(())
}

/// Waits for a good CONNECT packet: its namespace and the frame. `None`: the socket is closed without one.
async fn connect_packet(
    edge: &Edge,
    inbox: &glue::Inbox,
    server: &worker::WebSocket,
) -> Result<Option<(Namespace, String)>> {
    let deadline = now() + CONNECT_TIMEOUT_MS;
    let (mut refusals, mut idle) = (0, 0);
    let (code, reason) = loop {
        let left = u32::try_from(deadline.saturating_sub(now())).unwrap_or(0);
        let next = JsFuture::from(inbox.next(left)).await?;
        if inbox.closed() {
            return Ok(None);
        }
        if next.is_undefined() || left == 0 {
            break (1008, NO_CONNECT);
        }
        let frame = next.as_string();
        let admission = frame.as_deref().map(|frame| admission(&edge.tokens, None, frame));
        // A socket that is closing refuses to send; the next round sees that it closed.
        match admission.unwrap_or_else(|| Admission::Refused(binary_refusal())) {
            Admission::Granted { namespace, .. } => return Ok(frame.map(|frame| (namespace, frame))),
            Admission::Refused(refusal) => {
                let _ = server.send_with_str(refusal);
                refusals += 1;
                if refusals == MAX_REFUSALS {
                    break (1008, TOO_MANY_REFUSALS);
                }
            }
            Admission::Left => break (1000, ""),
            Admission::Pong(_) | Admission::Ignored if idle == MAX_IDLE_FRAMES => break (1008, TOO_MANY_IDLE_FRAMES),
            Admission::Pong(pong) => {
                let _ = server.send_with_str(pong);
                idle += 1;
            }
            Admission::Ignored => idle += 1,
        }
    };
    server.close(Some(code), Some(reason))?;
    Ok(None)
}
