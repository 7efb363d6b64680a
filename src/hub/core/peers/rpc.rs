//! RPC calls to CLIs: which socket handles which method, and the calls in flight.

use std::collections::{BTreeMap, HashMap};

use futures::channel::oneshot;
use strum::VariantNames;

use crate::hub::core::peers::grace::GracePeriods;
use crate::hub::core::ports::ConnId;
use crate::model::json::{Json, unescape};
use crate::model::keyword::join_names;
use crate::model::method::Method;
use crate::model::order::sort_by;
use crate::model::owner::Owner;
use crate::wire::cli::{NAMESPACE, rpc_request};
use crate::wire::field_types::optional_scalar;
use crate::wire::socketio;

/// The largest valid `RPC_TIMEOUT_MS`.
pub const MAX_RPC_TIMEOUT_MS: u64 = 600_000;

/// Why a call failed. Each variant contains the name of the method.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RpcError {
    /// No socket has registered the method. `unrecognized_methods` are registered methods of the same session or machine whose
    /// names the hub does not know. One of these methods may be the missing method, under a name that `VOCABULARY` lacks.
    #[error("No handler registered for {method}{}", vocabulary_hint(.unrecognized_methods))]
    NoHandler { method: String, unrecognized_methods: Vec<String> },
    /// The CLI did not answer in time.
    #[error("RPC timed out: {0}")]
    TimedOut(String),
    /// The CLI's socket closed during the call.
    #[error("The CLI disconnected before it answered {0}")]
    Disconnected(String),
    /// The CLI acknowledged with something other than a JSON object.
    #[error("The CLI's answer to {0} is not a JSON object")]
    InvalidResult(String),
}

/// Returns the hint that one of `unrecognized_methods` may be the missing method; empty if the list is empty.
fn vocabulary_hint(unrecognized_methods: &[String]) -> String {
    if unrecognized_methods.is_empty() {
        return String::new();
    }
    format!(
        ". The CLI registered {}: if one of these is the same method, map it in the setting VOCABULARY of the hub \
        (docs/CLIENTS.md)",
        join_names(unrecognized_methods)
    )
}

/// The result of a call: a JSON object as text.
pub type RpcResult = Result<String, RpcError>;

#[derive(Debug)]
struct Handler {
    conn: ConnId,
    /// The name with which the CLI registered the method, such as `<session id>:git-status` for the method `gitStatus`.
    /// The frame of a call contains this name.
    registered_name: String,
}

#[derive(Debug)]
struct PendingCall {
    conn: ConnId,
    method: String,
    deadline: u64,
    sender: oneshot::Sender<RpcResult>,
}

/// A call whose frame the caller must send.
#[derive(Debug)]
pub struct Call {
    pub conn: ConnId,
    /// See [`Handler::registered_name`].
    registered_name: String,
    owner: Owner,
    method: String,
    ack: u64,
    receiver: oneshot::Receiver<RpcResult>,
}

impl Call {
    /// Encodes the frame of the call. `params` is the text of a JSON object. If the call is to a session, the field
    /// `sessionId` is added to the object.
    pub fn frame(&self, params: &str) -> String {
        let Owner::Session(id) = &self.owner else { return self.encode(params) };
        let members = params.strip_prefix('{').unwrap_or("}");
        let separator = if members == "}" { "" } else { "," };
        self.encode(&format!(r#"{{"sessionId":{}{separator}{members}"#, Json::of(id).text()))
    }

    fn encode(&self, params: &str) -> String {
        let request = rpc_request(&self.registered_name, params);
        socketio::event_frame(NAMESPACE, Some(self.ack), "rpc-request", &[&request])
    }

    /// Returns the registered name of the method without its prefix, the id of the session or machine.
    pub fn unprefixed_name(&self) -> &str {
        let (Owner::Session(id) | Owner::Machine(id)) = &self.owner;
        let unprefixed = self.registered_name.strip_prefix(id.as_str()).and_then(|name| name.strip_prefix(':'));
        unprefixed.unwrap_or(&self.registered_name)
    }

    /// Waits for the answer of the CLI. Fails when the call times out, or the socket of the CLI closes.
    pub async fn result(self) -> RpcResult {
        self.receiver.await.unwrap_or(Err(RpcError::Disconnected(self.method)))
    }
}

/// The registered methods and the calls in flight.
#[derive(Debug, Default)]
pub struct Rpc {
    handlers: HashMap<(Owner, String), Handler>,
    pending: BTreeMap<u64, PendingCall>,
    /// The methods of CLIs that may reconnect, and the calls that wait for them.
    pub grace: GracePeriods,
}

impl Rpc {
    /// Registers a method for a socket. The last registration wins. If another socket had registered the method, returns that
    /// socket and the name that it used.
    pub fn register(
        &mut self,
        owner: Owner,
        method: &str,
        registered_name: &str,
        conn: ConnId,
        now: u64,
    ) -> Option<(ConnId, String)> {
        self.grace.on_method_registered(&owner, method, now);
        let replaced = self
            .handlers
            .insert((owner, method.to_owned()), Handler { conn, registered_name: registered_name.to_owned() });
        replaced.filter(|handler| handler.conn != conn).map(|handler| (handler.conn, handler.registered_name))
    }

    /// Removes the registration of a method, unless another socket has registered the method.
    pub fn unregister(&mut self, owner: Owner, method: &str, conn: ConnId) {
        let key = (owner, method.to_owned());
        if self.handlers.get(&key).is_some_and(|handler| handler.conn == conn) {
            self.handlers.remove(&key);
        }
    }

    pub fn has_handler(&self, owner: Owner, method: &str) -> bool {
        self.handlers.contains_key(&(owner, method.to_owned()))
    }

    /// Returns the registered methods of an owner whose names the hub does not know, in alphabetical order.
    pub fn unrecognized_methods(&self, owner: &Owner) -> Vec<String> {
        let methods_of_owner =
            self.handlers.keys().filter(|(method_owner, _)| method_owner == owner).map(|(_, method)| method.clone());
        let mut methods: Vec<String> =
            methods_of_owner.filter(|method| !Method::VARIANTS.contains(&method.as_str())).collect();
        sort_by(&mut methods, |a, b| a.cmp(b));
        methods
    }

    /// Opens a call, which the caller must send. `ack` must not be in use. `None` if no socket has registered the method.
    pub fn open_call(&mut self, owner: &Owner, method: &str, ack: u64, deadline: u64) -> Option<Call> {
        let handler = self.handlers.get(&(owner.clone(), method.to_owned()))?;
        let (sender, receiver) = oneshot::channel();
        let (owner, registered_name) = (owner.clone(), handler.registered_name.clone());
        let call = Call { conn: handler.conn, registered_name, owner, method: method.to_owned(), ack, receiver };
        self.pending.insert(ack, PendingCall { conn: call.conn, method: method.to_owned(), deadline, sender });
        Some(call)
    }

    /// Removes a call that was not sent.
    pub fn cancel(&mut self, call: &Call) {
        self.pending.remove(&call.ack);
    }

    /// Completes a call with the arguments of its acknowledgement. Ignores late acknowledgements, and acknowledgements from
    /// another socket than the call's.
    pub fn complete(&mut self, conn: ConnId, ack: u64, args: &[&serde_json::value::RawValue]) {
        if let Some(call) = self.take_pending(conn, ack) {
            let result = read_result(args).ok_or(RpcError::InvalidResult(call.method));
            let _ = call.sender.send(result);
        }
    }

    fn take_pending(&mut self, conn: ConnId, ack: u64) -> Option<PendingCall> {
        self.pending.get(&ack).filter(|call| call.conn == conn)?;
        self.pending.remove(&ack)
    }

    /// Removes the methods of a socket that closed, and fails the calls to the socket. The grace periods of the methods begin.
    pub fn on_socket_closed(&mut self, conn: ConnId, now: u64) {
        for ((owner, method), _) in self.handlers.extract_if(|_, handler| handler.conn == conn) {
            self.grace.on_method_lost(owner, method, now);
        }
        for (_, call) in self.pending.extract_if(.., |_, call| call.conn == conn) {
            let _ = call.sender.send(Err(RpcError::Disconnected(call.method)));
        }
    }

    /// Fails the calls whose deadline has passed, and ends the grace periods that are over.
    pub fn expire(&mut self, now: u64) {
        self.grace.expire(now);
        for (_, call) in self.pending.extract_if(.., |_, call| call.deadline <= now) {
            let _ = call.sender.send(Err(RpcError::TimedOut(call.method)));
        }
    }

    /// Returns the Unix milliseconds at which the first call times out, in flight or waiting; `None` without calls.
    pub fn next_deadline(&self) -> Option<u64> {
        self.pending.values().map(|call| call.deadline).chain(self.grace.next_deadline()).min()
    }

    /// Whether an acknowledgement id is in use.
    pub fn is_pending(&self, ack: u64) -> bool {
        self.pending.contains_key(&ack)
    }
}

/// Returns the CLI's reason if a result says `success: false`.
pub fn rejection_reason(result: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Outcome {
        #[serde(default, deserialize_with = "optional_scalar")]
        success: Option<bool>,
        error: Option<String>,
    }
    let outcome: Outcome = serde_json::from_str(result).ok()?;
    (outcome.success == Some(false)).then(|| outcome.error.unwrap_or_else(|| "it gave no reason".into()))
}

/// Reads a JSON object from the first argument. The official client sends the object inside a JSON string; other clients send
/// the object itself.
fn read_result(args: &[&serde_json::value::RawValue]) -> Option<String> {
    let text = args.first()?.get();
    let object = if text.starts_with('"') { unescape(text)? } else { text.to_owned() };
    let is_object = object.trim_start().starts_with('{');
    let is_valid = is_object && serde_json::from_str::<&serde_json::value::RawValue>(&object).is_ok();
    is_valid.then_some(object)
}
