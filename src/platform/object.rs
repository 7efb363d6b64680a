//! The Durable Object of a namespace: a shell that wakes its hub and hands it what comes in.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use js_sys::{JsString, Promise};
use strum::{EnumString, IntoStaticStr};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{Request, Response};
use worker::worker_sys::DurableObjectState;
use worker::{Env, State, WebSocketPair};

use super::convert;
use super::glue::{self, ASKED, ObjectSocket, SUBSCRIBED};
use super::guard;
use super::runtime::{ObjectRuntime, log, socket_of};
use super::settings;
use super::upload::JsUpload;
use crate::http::edge::split_url;
use crate::http::error::ErrorResponse;
use crate::http::extract::{ExternalBody, is_upload};
use crate::http::{events, finalize, respond, router};
use crate::hub::inbound::admission::NO_CONNECT;
use crate::hub::peers::connections::Upgrade;
use crate::hub::peers::subscription::{Format, Subscription};
use crate::hub::ports::{ConnId, Runtime};
use crate::hub::{Hub, storage_keys};
use crate::model::namespace::Namespace;

type Result<T> = std::result::Result<T, JsValue>;

/// What a WebSocket to the object is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum SocketUse {
    /// A CLI's; the token has to come with CONNECT.
    Cli,
    /// A CLI's; a good token came with the upgrade.
    AuthenticatedCli,
    /// A CLI's that the worker greeted already.
    BridgedCli,
    /// A web client's.
    Web,
    /// The worker's, to be copied to an SSE stream.
    Sse,
}

impl SocketUse {
    /// The word in the header.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// How long an alarm waits that rang while the settings were not in order.
const UNCONFIGURED_PAUSE: Duration = Duration::from_secs(10);

/// What a request to the object asks for.
struct Asked<'a> {
    method: &'a str,
    url: &'a str,
    namespace: &'a str,
    socket: &'a str,
}

impl<'a> Asked<'a> {
    fn of(head: &'a str) -> Self {
        let mut lines = head.split('\n');
        let mut next = || lines.next().unwrap_or_default();
        Self { method: next(), url: next(), namespace: next(), socket: next() }
    }
}

/// Why the hub can't wake.
enum Asleep {
    /// Nobody with a good token has asked for this object: it does not know its name.
    Nameless,
    /// The deployment's settings are not in order; with what is wrong.
    NotConfigured(String),
}

impl From<String> for Asleep {
    fn from(message: String) -> Self {
        Self::NotConfigured(message)
    }
}

impl From<Asleep> for ErrorResponse {
    fn from(asleep: Asleep) -> Self {
        Self::not_configured(match asleep {
            Asleep::Nameless => "This object does not know its namespace yet.".to_owned(),
            Asleep::NotConfigured(message) => message,
        })
    }
}

/// What lives while the object is in memory.
struct Awake {
    hub: Arc<Hub>,
    runtime: Arc<ObjectRuntime>,
    router: Router,
}

/// One per namespace: the only writer of its data. The runtime calls its methods; each is guarded against the
/// loss of the wasm instance.
#[wasm_bindgen]
pub struct NamespaceHub(Rc<Shell>);

#[wasm_bindgen]
impl NamespaceHub {
    /// The object is needed, for the first time or again.
    #[wasm_bindgen(constructor)]
    pub fn new(state: DurableObjectState, env: Env) -> Self {
        guard::prepare();
        let js = JsValue::from(state);
        let state = State::from(js.clone().unchecked_into::<DurableObjectState>());
        Self(Rc::new(Shell { js, state, env, awake: RefCell::new(None) }))
    }

    /// A request, with the headers of [`ASKED`].
    pub fn fetch(&self, request: Request) -> Promise {
        let shell = Rc::clone(&self.0);
        guard::carried_out(&convert::promise(async move { shell.fetch(request).await.map(JsValue::from) }))
    }

    /// A frame on a hibernatable socket: a text, or an `ArrayBuffer`. Most are dealt with at once, and leave no promise.
    #[wasm_bindgen(js_name = webSocketMessage)]
    pub fn web_socket_message(
        &self,
        socket: ObjectSocket,
        frame: JsValue,
    ) -> std::result::Result<Option<Promise>, JsValue> {
        let shell = Rc::clone(&self.0);
        let heard_on = JsValue::from(&socket);
        let mut heard = Box::pin(async move { shell.heard(&socket, &frame).await.map(|()| JsValue::UNDEFINED) });
        match guard::hearing(&heard_on, || heard.as_mut().now_or_never()) {
            Some(heard) => heard.map(|_| None),
            None => Ok(Some(guard::heard(&convert::promise(heard), &heard_on))),
        }
    }

    /// A socket was closed by its client.
    #[wasm_bindgen(js_name = webSocketClose)]
    pub fn web_socket_close(&self, socket: ObjectSocket) {
        self.0.gone(&socket);
        // Completes the closing handshake; a socket that is closed already refuses.
        let _ = socket.close(1000, "");
    }

    /// A socket broke.
    #[wasm_bindgen(js_name = webSocketError)]
    pub fn web_socket_error(&self, socket: ObjectSocket) {
        self.0.gone(&socket);
    }

    /// The alarm rings.
    pub fn alarm(&self) -> Promise {
        let shell = Rc::clone(&self.0);
        guard::carried_out(&convert::promise(async move { shell.alarm().await.map(|()| JsValue::UNDEFINED) }))
    }
}

/// What the methods of the object share.
struct Shell {
    /// The state as the runtime made it.
    js: JsValue,
    state: State,
    env: Env,
    awake: RefCell<Option<Rc<Awake>>>,
}

impl Shell {
    /// The hub, woken by what comes first. `namespace` is what a request named; later events find it in the notebook.
    fn wake(&self, namespace: Option<&str>) -> std::result::Result<Rc<Awake>, Asleep> {
        if let Some(awake) = self.awake.borrow().as_ref() {
            return Ok(Rc::clone(awake));
        }
        let (runtime, sockets) = ObjectRuntime::new(&self.state, self.js.clone());
        let noted = runtime.kv_list(storage_keys::NAMESPACE).pop().map(|(_, value)| value);
        let name = noted.as_deref().or(namespace).ok_or(Asleep::Nameless)?;
        let namespace = Namespace::parse(name).ok_or_else(|| "This object's namespace is malformed.".to_owned())?;
        let config = settings::config(&self.env, namespace)?;
        let runtime = Arc::new(runtime);
        let hub = Hub::wake(config, settings::database(&self.env)?, Arc::clone(&runtime) as Arc<dyn Runtime>, sockets);
        let awake = Rc::new(Awake { router: router(Arc::clone(&hub)), hub, runtime });
        self.awake.replace(Some(Rc::clone(&awake)));
        Ok(awake)
    }

    async fn respond(&self, awake: &Awake, request: &Request, asked: Asked<'_>) -> Result<Response> {
        match asked.socket.parse().ok() {
            Some(SocketUse::Web) => self.subscribe(awake, request, &asked, Format::Json).await,
            Some(SocketUse::Sse) => self.subscribe(awake, request, &asked, Format::Sse).await,
            Some(SocketUse::Cli) => self.open_cli(awake, Upgrade::Unauthenticated).await,
            Some(SocketUse::AuthenticatedCli) => self.open_cli(awake, Upgrade::Authenticated).await,
            Some(SocketUse::BridgedCli) => self.open_cli(awake, Upgrade::Bridged).await,
            None => match self.read(awake, request, &asked).await? {
                Ok(request) => {
                    let answer = respond(&awake.hub, awake.router.clone(), request).await;
                    Ok(convert::any_response(&answer, &self.js))
                }
                Err(refusal) => Ok(refuse(refusal).await),
            },
        }
    }

    /// A request for the router, with its body, or with what stands for a body that stays outside.
    async fn read(
        &self,
        awake: &Awake,
        request: &Request,
        asked: &Asked<'_>,
    ) -> Result<std::result::Result<http::Request<Body>, ErrorResponse>> {
        let (_, path, _) = split_url(asked.url);
        if !is_upload(asked.method, path) {
            return convert::request(request, asked.method, asked.url).await;
        }
        let body = ExternalBody(Arc::new(JsUpload::new(request, Arc::clone(&awake.runtime))));
        Ok(convert::bodiless(asked.method, asked.url).map(|mut request| {
            request.extensions_mut().insert(body);
            request
        }))
    }

    async fn open_cli(&self, awake: &Awake, upgrade: Upgrade) -> Result<Response> {
        if !awake.hub.has_room_for(upgrade) {
            return Ok(refuse(no_room()).await);
        }
        let (response, conn) = self.accept(awake)?;
        awake.hub.open_cli(conn, upgrade);
        Ok(response)
    }

    async fn subscribe(&self, awake: &Awake, request: &Request, asked: &Asked<'_>, format: Format) -> Result<Response> {
        let (_, _, query) = split_url(asked.url);
        let head = glue::head(request, SUBSCRIBED);
        let mut headers = head.split('\n').skip(2);
        let expires_at = headers.next().and_then(|at| at.parse().ok());
        let last_event_id = headers.next().filter(|id| !id.is_empty()).map(str::to_owned);
        match events::parse_request(&awake.hub, query, last_event_id, format).await {
            Ok(_) if !awake.hub.has_room() => Ok(refuse(no_room()).await),
            Ok(asked) => {
                let (response, conn) = self.accept(awake)?;
                let subscription = Subscription { expires_at, ..asked.subscription };
                awake.hub.subscribe(conn, subscription, asked.last_event_id.as_deref());
                Ok(response)
            }
            Err(error) => Ok(refuse(error.into()).await),
        }
    }

    /// Takes a WebSocket that the object need not stay awake for.
    fn accept(&self, awake: &Awake) -> Result<(Response, ConnId)> {
        let pair = WebSocketPair::new()?;
        self.state.accept_web_socket(&pair.server);
        let conn = awake.runtime.adopt(socket_of(&pair.server));
        Ok((worker::Response::from_websocket(pair.client)?.into(), conn))
    }

    /// Closes all sockets.
    fn hang_up(&self, code: u16, reason: &str) -> Result<()> {
        self.state.get_websockets().iter().try_for_each(|socket| Ok(socket.close(Some(code), Some(reason))?))
    }

    fn gone(&self, socket: &ObjectSocket) {
        if let Ok(awake) = self.wake(None)
            && let Some(conn) = socket.connection()
        {
            awake.hub.on_close(conn);
            awake.runtime.forget(conn);
        }
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        let head = glue::head(&request, ASKED);
        let asked = Asked::of(&head);
        match self.wake(Some(asked.namespace).filter(|name| !name.is_empty())) {
            Ok(awake) => {
                if asked.socket != SocketUse::Cli.word() {
                    awake.hub.note_namespace();
                }
                self.respond(&awake, &request, asked).await
            }
            Err(asleep) => Ok(refuse(asleep.into()).await),
        }
    }

    /// A frame. What is not small stays outside until it is known that it may come in.
    async fn heard(&self, socket: &ObjectSocket, frame: &JsValue) -> Result<()> {
        let Ok(awake) = self.wake(None) else { return self.hang_up(1012, "Please reconnect") };
        let Some(conn) = socket.connection() else { return Ok(()) };
        if let Some(text) = glue::small_text(frame) {
            awake.hub.on_text(conn, text).await;
        } else if let Some(text) = frame.dyn_ref::<JsString>() {
            if awake.hub.admits_frame(conn, text.length() as usize) {
                awake.hub.on_text(conn, convert::text(text)).await;
            }
        } else {
            awake.hub.on_binary(conn);
        }
        Ok(())
    }

    async fn alarm(&self) -> Result<()> {
        let unused = match self.wake(None) {
            Ok(awake) => {
                awake.hub.on_alarm();
                awake.hub.is_unused()
            }
            Err(Asleep::Nameless) => {
                self.hang_up(1008, NO_CONNECT)?;
                true
            }
            // The notebook tells which clocks run and what is on its way: it waits for settings that are in order.
            Err(Asleep::NotConfigured(message)) => {
                worker::console_error!("an alarm waits for the settings of the hub: {message}");
                self.state.storage().set_alarm(UNCONFIGURED_PAUSE).await?;
                false
            }
        };
        if unused {
            // Even an alarm that rang leaves something in the storage. An empty one is the platform's to remove.
            log(self.state.storage().delete_all().await);
        }
        Ok(())
    }
}

fn no_room() -> ErrorResponse {
    ErrorResponse::hub_unavailable("Too many sockets are open or opening at once. Try again in a few seconds.")
}

fn refuse(refusal: ErrorResponse) -> LocalBoxFuture<'static, Response> {
    Box::pin(async move { convert::response(&finalize(refusal.into_response()).await) })
}
