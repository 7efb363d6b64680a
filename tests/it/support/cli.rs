//! A test CLI that sends Socket.IO frames over a fake socket. It has its own codec, independent of the hub's.

use super::prelude::*;
use super::socket::Socket;

/// A received packet.
#[derive(Debug, Clone, PartialEq)]
pub enum Received {
    Open(Value),
    Ping,
    Connected(Value),
    ConnectError(Value),
    Event { name: String, arg: Value, ack: Option<u64> },
    Ack { id: u64, arg: Value },
}

/// Parses a frame of the hub. Panics if the frame is invalid.
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
        _ => panic!("invalid frame {text}"),
    }
}

fn parse_ack(frame: &Frame, expected_id: u64) -> Option<Value> {
    match frame {
        Frame::Text(text) => match parse_frame(text) {
            Received::Ack { id, arg } if id == expected_id => Some(arg),
            _ => None,
        },
        Frame::Closed { .. } => None,
    }
}

fn parse_event(frame: &Frame, expected_name: &str) -> Option<Value> {
    match frame {
        Frame::Text(text) => match parse_frame(text) {
            Received::Event { name, arg, ack: None } if name == expected_name => Some(arg),
            _ => None,
        },
        Frame::Closed { .. } => None,
    }
}

fn parse_call(frame: &Frame) -> Option<Call> {
    let Frame::Text(text) = frame else { return None };
    let Received::Event { name, arg, ack: Some(ack) } = parse_frame(text) else { return None };
    (name == "rpc-request").then(|| {
        let params = arg["params"].as_str().expect("params must be a JSON string");
        let mut params: Value = serde_json::from_str(params).unwrap();
        // The hub adds `sessionId` to the params of a call to a session. In the params of a resume, `sessionId` is an argument.
        let is_resume = params.get("resumeSessionId").is_some();
        let session_id = params.as_object_mut().filter(|_| !is_resume).and_then(|params| params.remove("sessionId"));
        Call { ack, method: arg["method"].as_str().unwrap().to_owned(), session_id, params }
    })
}

/// An RPC call.
#[derive(Debug)]
pub struct Call {
    pub ack: u64,
    pub method: String,
    /// The `sessionId` that the hub added to the params.
    pub session_id: Option<Value>,
    /// The params without this `sessionId`.
    pub params: Value,
}

pub struct Cli {
    pub socket: Socket,
    next_ack: u64,
}

impl Cli {
    /// Opens a socket and sends CONNECT without waiting for the reply.
    pub fn start_connect(world: &World, auth: &Value) -> Self {
        let socket = world.open_cli();
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

    pub async fn receive(&mut self) -> Received {
        parse_frame(&self.socket.next_text().await)
    }

    pub fn emit(&self, name: &str, payload: &Value) {
        self.socket.send(format!("42/cli,{}", json!([name, payload])));
    }

    /// Sends an event, and runs until idle.
    pub async fn deliver(&self, name: &str, payload: &Value) {
        self.emit(name, payload);
        run_until_idle().await;
    }

    /// Sends an event that requests an acknowledgement. Returns the ack id.
    pub fn emit_for_ack(&mut self, name: &str, payload: &Value) -> u64 {
        self.emit_raw(name, &payload.to_string())
    }

    /// Like [`emit_for_ack`](Self::emit_for_ack), with the JSON text of the payload.
    pub fn emit_raw(&mut self, name: &str, payload: &str) -> u64 {
        let ack = self.next_ack;
        self.next_ack += 1;
        self.socket.send(format!("42/cli,{ack}[{},{payload}]", json!(name)));
        ack
    }

    /// Sends an event. Returns the acknowledgement.
    pub async fn emit_with_ack(&mut self, name: &str, payload: &Value) -> Value {
        let id = self.emit_for_ack(name, payload);
        self.wait_for_ack(id).await
    }

    /// Like [`emit_with_ack`](Self::emit_with_ack), with the JSON text of the payload.
    pub async fn emit_raw_with_ack(&mut self, name: &str, payload: &str) -> Value {
        let id = self.emit_raw(name, payload);
        self.wait_for_ack(id).await
    }

    pub async fn wait_for_ack(&mut self, id: u64) -> Value {
        self.socket.wait_for(&format!("the acknowledgement {id}"), |frame| parse_ack(frame, id)).await
    }

    /// Runs all tasks until they wait. Returns `None` if the acknowledgement was not received by then.
    pub async fn try_ack(&mut self, id: u64) -> Option<Value> {
        self.socket.try_find(|frame| parse_ack(frame, id)).await
    }

    /// The next event with a name.
    pub async fn next_event(&mut self, name: &str) -> Value {
        self.socket.wait_for(&format!("the event {name}"), |frame| parse_event(frame, name)).await
    }

    /// Runs all tasks until they wait. Returns `None` if no event with this name was received by then.
    pub async fn try_event(&mut self, name: &str) -> Option<Value> {
        self.socket.try_find(|frame| parse_event(frame, name)).await
    }

    pub async fn next_call(&mut self) -> Call {
        self.socket.wait_for("a call", parse_call).await
    }

    /// Runs all tasks until they wait. Returns `None` if no call was received by then.
    pub async fn try_call(&mut self) -> Option<Call> {
        self.socket.try_find(parse_call).await
    }

    pub fn respond(&self, call: &Call, result: &Value) {
        self.respond_raw(call, &json!(result.to_string()).to_string());
    }

    /// Responds to a call with the JSON text of the argument.
    pub fn respond_raw(&self, call: &Call, argument: &str) {
        self.socket.send(format!("43/cli,{}[{argument}]", call.ack));
    }

    pub async fn register(&mut self, method: &str) {
        assert_eq!(self.emit_with_ack("rpc-register", &json!({"method": method})).await, json!({"ok": true}));
    }

    /// Responds to the next call, which must have this method. Returns the params of the call.
    pub async fn respond_to_next_call(&mut self, method: &str, result: &Value) -> Value {
        let call = self.next_call().await;
        assert_eq!(call.method, method);
        self.respond(&call, result);
        call.params
    }

    /// Responds to the next call. Returns the response to the request that made the call.
    pub async fn complete(&mut self, request: PendingReply, result: &Value) -> Reply {
        let call = self.next_call().await;
        self.respond(&call, result);
        request.reply().await
    }

    /// Like [`complete`](Self::complete), for a call that must have this method.
    pub async fn serve(&mut self, request: PendingReply, method: &str, result: &Value) -> Reply {
        self.respond_to_next_call(method, result).await;
        request.reply().await
    }

    pub async fn update_agent_state(&mut self, session: &str, expected: u64, state: &Value) -> Value {
        let update = json!({"sid": session, "expectedVersion": expected, "agentState": state});
        self.emit_with_ack("update-state", &update).await
    }

    pub async fn update_metadata(&mut self, session: &str, expected: impl Into<Value>, metadata: &Value) -> Value {
        let update = json!({"sid": session, "expectedVersion": expected.into(), "metadata": metadata});
        self.emit_with_ack("update-metadata", &update).await
    }

    /// Updates the agent state, which must succeed.
    pub async fn put_agent_state(&mut self, session: &str, expected: u64, state: &Value) {
        let ack = self.update_agent_state(session, expected, state).await;
        assert_eq!(ack["result"], "success", "{ack}");
    }

    /// Updates the metadata, which must succeed.
    pub async fn put_metadata(&mut self, session: &str, expected: impl Into<Value>, metadata: &Value) {
        let ack = self.update_metadata(session, expected, metadata).await;
        assert_eq!(ack["result"], "success", "{ack}");
    }

    pub async fn send_keep_alive(&mut self, world: &World, session: &str) {
        let alive = json!({"sid": session, "time": world.now()});
        assert_eq!(self.emit_with_ack("session-alive", &alive).await, json!({"ok": true}));
    }

    /// Sends keep-alives until calls to the CLI have timed out.
    pub async fn time_out_calls(&mut self, world: &World, session: &str) {
        for _ in 0..3 {
            world.advance(RPC_TIMEOUT_MS / 3).await;
            self.send_keep_alive(world, session).await;
        }
    }

    pub async fn send_ready(&mut self, session: &str) {
        let content = json!({"type": "event", "data": {"type": "ready"}});
        let message = json!({"sid": session, "message": {"role": "agent", "content": content}});
        assert_eq!(self.emit_with_ack("message", &message).await["ok"], true);
    }

    pub async fn send_message_of_1_mib(&mut self, session: &str) {
        assert_eq!(self.send_message(session, &"x".repeat(1 << 20)).await["ok"], true);
    }

    /// Sends a message. Returns the acknowledgement.
    pub async fn send_message(&mut self, session: &str, text: &str) -> Value {
        self.emit_with_ack("message", &json!({"sid": session, "message": {"role": "agent", "content": text}})).await
    }
}
