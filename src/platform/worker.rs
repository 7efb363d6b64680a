//! The stateless worker: the entry of every request.

use std::rc::Rc;
use std::time::Duration;

use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::future::{Either, select};
use wasm_bindgen_futures::JsFuture;
use worker::{Context, Delay, Env, Headers, Request, Response, Result, WebSocketPair, event};

use super::convert;
use super::glue;
use super::object::{NAMESPACE_HEADER, SOCKET_HEADER, SocketUse};
use super::settings::{self, AUTH_RATE_LIMIT, HUB};
use crate::http::edge::{Action, Edge};
use crate::http::error::Refusal;
use crate::http::finish;
use crate::hub::connections::OPENING_MS;
use crate::hub::sockets::{Admission, admit, greeting};
use crate::model::ids::uuid_v7;
use crate::model::namespace::Namespace;
use crate::wire::engineio;
use crate::wire::socketio::{self, Packet};

/// The largest body of `POST /api/auth`, in bytes.
const MAX_AUTH_BODY: usize = 16 * 1024;
/// How much longer than a call to a CLI a request to the object may take, in milliseconds.
const OBJECT_GRACE_MS: u64 = 10_000;

thread_local! {
    /// The configuration does not change while the isolate lives.
    static EDGE: std::cell::RefCell<Option<Rc<Edge>>> = const { std::cell::RefCell::new(None) };
}

fn edge(env: &Env) -> std::result::Result<Rc<Edge>, String> {
    if let Some(edge) = EDGE.with_borrow(Clone::clone) {
        return Ok(edge);
    }
    let edge = Rc::new(settings::edge(env)?);
    EDGE.set(Some(Rc::clone(&edge)));
    Ok(edge)
}

#[event(fetch)]
async fn fetch(request: Request, env: Env, context: Context) -> Result<Response> {
    let edge = match edge(&env) {
        Ok(edge) => edge,
        Err(message) => return respond(Refusal::hub_unavailable(message).into_response()).await,
    };
    let head = convert::head(&request)?;
    let cors = edge.cors.headers(head.origin.as_deref(), &head.host, head.method == "OPTIONS");
    let response = match edge.decide(&head, now(), fresh_secret).await {
        Action::Respond(response) => respond(response).await?,
        Action::Authenticate => authenticate(&edge, &env, request).await?,
        Action::Object(namespace) if head.upgrade => {
            return to_object(&env, request, &namespace, Some(SocketUse::Web)).await;
        }
        Action::Object(namespace) => to_object(&env, request, &namespace, None).await?,
        Action::Sse(namespace) => stream(&env, request, &namespace).await?,
        Action::Socket { namespace, authenticated } => {
            let socket_use = if authenticated { SocketUse::AuthenticatedCli } else { SocketUse::Cli };
            return to_object(&env, request, &namespace, Some(socket_use)).await;
        }
        Action::Bridge => return bridge(edge, env, request, &context),
    };
    convert::add_headers(response, &cors)
}

fn now() -> u64 {
    worker::Date::now().as_millis()
}

fn fresh_secret() -> String {
    let mut bytes = [0; 32];
    // Without a random source there must be no secret: an empty one signs and verifies nothing.
    getrandom::fill(&mut bytes).map_or_else(|_| String::new(), |()| URL_SAFE_NO_PAD.encode(bytes))
}

async fn respond(response: axum::response::Response) -> Result<Response> {
    convert::response(finish(response).await)
}

async fn authenticate(edge: &Edge, env: &Env, mut request: Request) -> Result<Response> {
    let address = request.headers().get("cf-connecting-ip")?.unwrap_or_else(|| "unknown".into());
    if let Ok(limiter) = env.rate_limiter(AUTH_RATE_LIMIT) {
        if !limiter.limit(address).await?.success {
            let refusal = Refusal::new(
                http::StatusCode::TOO_MANY_REQUESTS,
                "rate_limited",
                "Too many attempts. Try again in a minute.",
            );
            return respond(Refusal { retry_after: Some(60), ..refusal }.into_response()).await;
        }
    }
    let body = match convert::body(&mut request, MAX_AUTH_BODY).await? {
        Ok(body) => String::from_utf8_lossy(&body).into_owned(),
        Err(refusal) => return respond(refusal.into_response()).await,
    };
    respond(edge.authenticate(&body, now(), fresh_secret).await).await
}

/// Carries a request to the namespace's object. One that does not answer in time is taken for broken.
async fn to_object(
    env: &Env,
    request: Request,
    namespace: &Namespace,
    socket_use: Option<SocketUse>,
) -> Result<Response> {
    let headers = Headers::new();
    for (name, value) in request.headers().entries() {
        headers.append(&name, &value)?;
    }
    headers.set(NAMESPACE_HEADER, namespace.as_ref())?;
    headers.set(SOCKET_HEADER, socket_use.map_or("", SocketUse::word))?;
    if socket_use.is_some() {
        headers.set("upgrade", "websocket")?;
    }
    let init = web_sys::RequestInit::new();
    init.set_headers(&headers.0);
    let request = web_sys::Request::new_with_request_and_init(request.inner(), &init)?;
    let stub = env.durable_object(HUB)?.get_by_name(namespace.as_ref())?;
    let answer = std::pin::pin!(stub.fetch_with_request(request.into()));
    let time_out = Delay::from(Duration::from_millis(settings::rpc_timeout_ms(env) + OBJECT_GRACE_MS));
    let message = match select(answer, std::pin::pin!(time_out)).await {
        Either::Left((Ok(response), _)) => return Ok(response),
        Either::Left((Err(error), _)) => {
            worker::console_error!("the object of a namespace failed: {error}");
            "The hub was interrupted. Try again."
        }
        Either::Right(_) => "The hub did not answer in time. Try again.",
    };
    respond(Refusal::hub_unavailable(message).into_response()).await
}

/// An event stream: a socket to the object, copied to the client.
async fn stream(env: &Env, request: Request, namespace: &Namespace) -> Result<Response> {
    let answer = to_object(env, request, namespace, Some(SocketUse::Sse)).await?;
    if answer.status_code() != 101 {
        return Ok(answer);
    }
    let Some(socket) = answer.websocket() else {
        return respond(Refusal::hub_unavailable("The hub sent no event socket. Try again.").into_response()).await;
    };
    let socket: &web_sys::WebSocket = socket.as_ref();
    let stream = glue::event_stream(socket);
    let headers = Headers::new();
    headers.set("content-type", "text/event-stream; charset=utf-8")?;
    headers.set("cache-control", "no-store")?;
    headers.set("x-accel-buffering", "no")?;
    Ok(Response::builder().with_headers(headers).stream(stream))
}

/// A CLI whose namespace only its CONNECT packet tells: the worker takes the socket, greets the client, reads CONNECT,
/// opens a socket to the object, and from then on passes everything through.
fn bridge(edge: Rc<Edge>, env: Env, request: Request, context: &Context) -> Result<Response> {
    let pair = WebSocketPair::new()?;
    pair.server.accept()?;
    let mut random = [0; 10];
    let _ = getrandom::fill(&mut random);
    pair.server.send_with_str(greeting(&uuid_v7(now(), &random)))?;
    let server = pair.server;
    context.wait_until(async move {
        if let Err(error) = carry(&edge, &env, request, &server).await {
            worker::console_error!("a bridged socket failed: {error}");
            let _ = server.close(Some(1011), Some("The hub was interrupted, please reconnect"));
        }
    });
    Response::from_websocket(pair.client)
}

async fn carry(edge: &Edge, env: &Env, request: Request, server: &worker::WebSocket) -> Result<()> {
    let socket: &web_sys::WebSocket = server.as_ref();
    let inbox = glue::Inbox::new(socket);
    let deadline = now() + OPENING_MS;
    loop {
        let left = u32::try_from(deadline.saturating_sub(now())).unwrap_or(0);
        let Some(frame) = JsFuture::from(inbox.next(left)).await?.as_string() else {
            if !inbox.closed() {
                server.close(Some(1008), Some("No CONNECT packet came"))?;
            }
            return Ok(());
        };
        let namespace = match admission(edge, &frame) {
            Some(Admission::Granted { namespace, .. }) => namespace,
            Some(Admission::Refused(refusal)) => {
                server.send_with_str(refusal)?;
                continue;
            }
            None => continue,
        };
        let answer = to_object(env, request, &namespace, Some(SocketUse::BridgedCli)).await?;
        let Some(object) = answer.websocket() else {
            // A client comes back by itself after a close, which a CONNECT_ERROR would keep it from.
            return server.close(Some(1013), Some("The hub is not available, try again"));
        };
        let object: &web_sys::WebSocket = object.as_ref();
        inbox.join_with(&frame, object);
        return Ok(());
    }
}

/// What a first frame asks for; `None` when it is not a CONNECT packet.
fn admission(edge: &Edge, frame: &str) -> Option<Admission> {
    let engineio::Packet::Message(text) = engineio::decode(frame).ok()? else { return None };
    match socketio::decode(text) {
        Ok(Packet::Connect { namespace, auth }) => Some(admit(&edge.tokens, None, namespace, auth)),
        Ok(_) => None,
        Err(error) => {
            Some(Admission::Refused(socketio::connect_error(error.namespace().unwrap_or("/"), &format!("{error}."))))
        }
    }
}
