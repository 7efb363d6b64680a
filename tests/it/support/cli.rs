//! A CLI, as far as the hub can tell: Socket.IO text frames over the fake socket. Packets are written and read here by
//! hand, so that the hub's own codec is not tested against itself.

use serde_json::{Value, json};

use super::World;
use super::runtime::Frame;
use super::socket::Socket;

/// What a CLI hears.
#[derive(Debug, Clone, PartialEq)]
pub enum Received {
    Open(Value),
    Ping,
    Connected(Value),
    ConnectError(Value),
    Event { name: String, arg: Value, ack: Option<u64> },
    Ack { id: u64, arg: Value },
}

/// Reads a frame of the hub; what is none of the above is a mistake of the hub.
pub fn parse_frame(text: &str) -> Received {
    let json = |text: &str| serde_json::from_str(text).unwrap_or_else(|e| panic!("not JSON ({e}): {text}"));
    if text == "2" {
        return Received::Ping;
    }
    if let Some(handshake) = text.strip_prefix('0') {
        return Received::Open(json(handshake));
    }
    let (kind, rest) = text.split_at(2);
    let rest = rest.strip_prefix('/').map_or(rest, |named| named.split_once(',').map_or("", |(_, rest)| rest));
    let (digits, payload) = rest.split_at(rest.find(['[', '{']).unwrap_or(rest.len()));
    let ack = (!digits.is_empty()).then(|| digits.parse().unwrap());
    match (kind, ack) {
        ("40", None) => Received::Connected(json(payload)),
        ("44", None) => Received::ConnectError(json(payload)),
        ("42", ack) => {
            let mut args: Vec<Value> = serde_json::from_value(json(payload)).unwrap();
            let name = args.remove(0).as_str().unwrap().to_owned();
            Received::Event { name, arg: args.pop().unwrap_or(Value::Null), ack }
        }
        ("43", Some(id)) => Received::Ack { id, arg: json(payload)[0].clone() },
        _ => panic!("a CLI does not understand {text}"),
    }
}

fn acknowledgement(frame: &Frame, wanted: u64) -> Option<Value> {
    match frame {
        Frame::Text(text) => match parse_frame(text) {
            Received::Ack { id, arg } if id == wanted => Some(arg),
            _ => None,
        },
        Frame::Closed { .. } => None,
    }
}

fn event(frame: &Frame, wanted: &str) -> Option<Value> {
    match frame {
        Frame::Text(text) => match parse_frame(text) {
            Received::Event { name, arg, ack: None } if name == wanted => Some(arg),
            _ => None,
        },
        Frame::Closed { .. } => None,
    }
}

fn call(frame: &Frame) -> Option<Call> {
    let Frame::Text(text) = frame else { return None };
    let Received::Event { name, arg, ack: Some(ack) } = parse_frame(text) else { return None };
    (name == "rpc-request").then(|| {
        let params = serde_json::from_str(arg["params"].as_str().expect("params is JSON inside a string")).unwrap();
        Call { ack, method: arg["method"].as_str().unwrap().to_owned(), params }
    })
}

/// A call of the hub.
#[derive(Debug)]
pub struct Call {
    pub ack: u64,
    pub method: String,
    pub params: Value,
}

/// A CLI.
pub struct Cli {
    pub socket: Socket,
    next_ack: u64,
}

impl Cli {
    /// Opens a socket and sends CONNECT; what the hub makes of it is yet to be heard.
    pub fn start_connect(world: &World, auth: &Value) -> Self {
        let socket = world.open_cli(false);
        socket.send(format!("40/cli,{auth}"));
        Self { socket, next_ack: 0 }
    }

    /// A connected CLI.
    pub async fn connect(world: &World, mut auth: Value) -> Self {
        auth["token"] = json!(world.token());
        let mut cli = Self::start_connect(world, &auth);
        assert!(matches!(cli.receive().await, Received::Open(_)));
        let connected = cli.receive().await;
        assert!(matches!(connected, Received::Connected(_)), "{connected:?}");
        cli
    }

    /// The next thing heard.
    pub async fn receive(&mut self) -> Received {
        parse_frame(&self.socket.next_text().await)
    }

    /// Sends an event.
    pub fn emit(&self, name: &str, payload: &Value) {
        self.socket.send(format!("42/cli,{}", json!([name, payload])));
    }

    /// Sends an event that asks for an acknowledgement; answers its id.
    pub fn emit_for_ack(&mut self, name: &str, payload: &Value) -> u64 {
        self.emit_raw(name, &payload.to_string())
    }

    /// The same with a payload of exactly this text.
    pub fn emit_raw(&mut self, name: &str, payload: &str) -> u64 {
        let ack = self.next_ack;
        self.next_ack += 1;
        self.socket.send(format!("42/cli,{ack}[{},{payload}]", json!(name)));
        ack
    }

    /// Sends an event and waits for its acknowledgement.
    pub async fn emit_with_ack(&mut self, name: &str, payload: &Value) -> Value {
        let id = self.emit_for_ack(name, payload);
        self.wait_for_ack(id).await
    }

    /// The acknowledgement of an event.
    pub async fn wait_for_ack(&mut self, wanted: u64) -> Value {
        self.socket.wait_for(&format!("the acknowledgement {wanted}"), |frame| acknowledgement(frame, wanted)).await
    }

    /// The same, if it comes.
    pub async fn try_ack(&mut self, wanted: u64) -> Option<Value> {
        self.socket.try_find(|frame| acknowledgement(frame, wanted)).await
    }

    /// The next event of this name.
    pub async fn next_event(&mut self, wanted: &str) -> Value {
        self.socket.wait_for(&format!("the event {wanted}"), |frame| event(frame, wanted)).await
    }

    /// The same, if it comes.
    pub async fn try_event(&mut self, wanted: &str) -> Option<Value> {
        self.socket.try_find(|frame| event(frame, wanted)).await
    }

    /// The next call of the hub.
    pub async fn next_call(&mut self) -> Call {
        self.socket.wait_for("a call", call).await
    }

    /// The same, if it comes.
    pub async fn try_call(&mut self) -> Option<Call> {
        self.socket.try_find(call).await
    }

    /// Answers a call: the result is JSON inside a JSON string.
    pub fn respond(&self, request: &Call, result: &Value) {
        self.respond_raw(request, &json!(result.to_string()).to_string());
    }

    /// Answers a call with an argument of exactly this text.
    pub fn respond_raw(&self, request: &Call, argument: &str) {
        self.socket.send(format!("43/cli,{}[{argument}]", request.ack));
    }

    /// Registers a method.
    pub async fn register(&mut self, method: &str) {
        assert_eq!(self.emit_with_ack("rpc-register", &json!({"method": method})).await, json!({"ok": true}));
    }

    /// Answers the next call, which must be of this method; answers its params.
    pub async fn serve(&mut self, method: &str, result: &Value) -> Value {
        let request = self.next_call().await;
        assert_eq!(request.method, method);
        self.respond(&request, result);
        request.params
    }

    /// Puts an agent state in place of the one of this version.
    pub async fn update_state(&mut self, session: &str, expected: u64, state: &Value) -> Value {
        let update = json!({"sid": session, "expectedVersion": expected, "agentState": state});
        self.emit_with_ack("update-state", &update).await
    }

    /// Says that a session is alive now.
    pub async fn send_heartbeat(&mut self, world: &World, session: &str) {
        let alive = json!({"sid": session, "time": world.now()});
        assert_eq!(self.emit_with_ack("session-alive", &alive).await, json!({"ok": true}));
    }

    /// Says that the agent of a session is done and waits.
    pub async fn send_ready(&mut self, session: &str) {
        let content = json!({"type": "event", "data": {"type": "ready"}});
        let message = json!({"sid": session, "message": {"role": "agent", "content": content}});
        assert_eq!(self.emit_with_ack("message", &message).await["ok"], true);
    }

    /// Sends a message and waits for its acknowledgement.
    pub async fn send_message(&mut self, session: &str, text: &str) -> Value {
        self.emit_with_ack("message", &json!({"sid": session, "message": {"role": "agent", "content": text}})).await
    }
}
