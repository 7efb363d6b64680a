//! RPC calls to CLIs: which socket handles which method, and the calls in flight. Grace periods for CLIs that reconnect: a call of a
//! method whose CLI has just disconnected waits until the CLI registers the method again.

use std::collections::{BTreeMap, HashMap};

use futures::channel::oneshot;
use strum::VariantNames;

use crate::hub::core::ports::ConnId;
use crate::model::json::{Json, unescape};
use crate::model::keyword::join_names;
use crate::model::method::Method;
use crate::model::order::sort_by;
use crate::model::owner::Owner;
use crate::wire::cli::{NAMESPACE, rpc_request};
use crate::wire::field_types::optional_scalar;
use crate::wire::socketio;

pub const MAX_RPC_TIMEOUT_MS: u64 = 600_000;

/// How long the hub expects a disconnected CLI to reconnect, and how long a call waits for the CLI at least, in milliseconds.
/// Then web clients learn that the session is disconnected.
pub const RECONNECT_GRACE_MS: u64 = 2_000;
/// How long after a restart of the hub a call waits for a CLI, in milliseconds: the official client reconnects within 7.5 s.
pub const RESTART_GRACE_MS: u64 = 10_000;
const _: () = assert!(RECONNECT_GRACE_MS < RESTART_GRACE_MS);

/// How many methods of disconnected CLIs the hub remembers for [`RECONNECT_GRACE_MS`].
const MAX_LOST_METHODS: usize = 10_000;

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
    /// The name with which the CLI registered the method, and which the frame of a call has: `<session id>:git-status` for `gitStatus`.
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
    /// Encodes the frame of the call. To `params`, the text of a JSON object, a call to a session adds the field `sessionId`.
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
    /// Registers a method in place of an earlier registration. Returns the other socket that had registered it, with the name that it used.
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

    /// Completes a call with the arguments of its acknowledgement. Ignores late acknowledgements, and those of another socket.
    pub fn complete(&mut self, conn: ConnId, ack: u64, args: &[&serde_json::value::RawValue]) {
        for (_, call) in self.pending.extract_if(ack..=ack, |_, call| call.conn == conn) {
            let result = read_result(args).ok_or(RpcError::InvalidResult(call.method));
            let _ = call.sender.send(result);
        }
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

/// Reads a JSON object from the first argument: the object itself, or as the official client sends it, inside a JSON string.
fn read_result(args: &[&serde_json::value::RawValue]) -> Option<String> {
    let text = args.first()?.get();
    let object = if text.starts_with('"') { unescape(text)? } else { text.to_owned() };
    let is_object = object.trim_start().starts_with('{');
    let is_valid = is_object && serde_json::from_str::<&serde_json::value::RawValue>(&object).is_ok();
    is_valid.then_some(object)
}

#[derive(Debug)]
struct WaitingCall {
    owner: Owner,
    method: String,
    deadline: u64,
    registered: oneshot::Sender<()>,
}

/// The grace periods of a namespace, and the calls that wait. All times are in Unix milliseconds.
#[derive(Debug, Default)]
pub struct GracePeriods {
    /// Methods whose socket closed, with the end of the grace period.
    lost_methods: HashMap<(Owner, String), u64>,
    /// Sessions and machines whose sockets a restart closed, with the end of the grace period of all their methods.
    lost_owners: HashMap<Owner, u64>,
    waiting_calls: Vec<WaitingCall>,
}

impl GracePeriods {
    /// Starts the grace period of a method whose socket closed.
    pub fn on_method_lost(&mut self, owner: Owner, method: String, now: u64) {
        if self.lost_methods.len() < MAX_LOST_METHODS {
            self.lost_methods.insert((owner, method), now + RECONNECT_GRACE_MS);
        }
    }

    /// Starts the grace period of a session or machine after a restart of the hub. `disconnected_at`: when the last socket of
    /// the session or machine closed; `None` if the restart closed the socket.
    pub fn on_owner_lost(&mut self, owner: Owner, disconnected_at: Option<u64>, now: u64) {
        let until = disconnected_at.map_or(now + RESTART_GRACE_MS, |at| at + RECONNECT_GRACE_MS);
        if until > now {
            self.lost_owners.insert(owner, until);
        }
    }

    /// Ends the grace period of a method that is registered, and resumes the calls that wait for the method. The grace periods of
    /// the owner's other methods end within [`RECONNECT_GRACE_MS`].
    pub fn on_method_registered(&mut self, owner: &Owner, method: &str, now: u64) {
        if let Some(until) = self.lost_owners.get_mut(owner) {
            *until = (*until).min(now + RECONNECT_GRACE_MS);
        }
        for call in self.waiting_calls.iter_mut().filter(|call| call.owner == *owner) {
            call.deadline = call.deadline.min(now + RECONNECT_GRACE_MS);
        }
        if !self.lost_methods.is_empty() {
            self.lost_methods.remove(&(owner.clone(), method.to_owned()));
        }
        let waits_for_method = |call: &mut WaitingCall| call.owner == *owner && call.method == method;
        for call in self.waiting_calls.extract_if(.., waits_for_method) {
            let _ = call.registered.send(());
        }
    }

    /// Returns when the grace period of a method that is not registered ends; `None` if it is over.
    pub fn grace_end(&self, owner: &Owner, method: &str, now: u64) -> Option<u64> {
        let until = self.lost_methods.get(&(owner.clone(), method.to_owned())).or_else(|| self.lost_owners.get(owner));
        until.copied().filter(|until| now < *until)
    }

    /// Returns a receiver that resolves when the method is registered; `None` without a grace period. It is canceled at the deadline, or
    /// earlier when the grace period has ended and the call has waited for [`RECONNECT_GRACE_MS`].
    pub fn wait_for_method(
        &mut self,
        owner: &Owner,
        method: &str,
        now: u64,
        deadline: u64,
    ) -> Option<oneshot::Receiver<()>> {
        let grace_end = self.grace_end(owner, method, now)?;
        let deadline = deadline.min(grace_end.max(now + RECONNECT_GRACE_MS));
        (now < deadline).then(|| {
            let (registered, receiver) = oneshot::channel();
            let call = WaitingCall { owner: owner.clone(), method: method.to_owned(), deadline, registered };
            self.waiting_calls.push(call);
            receiver
        })
    }

    /// Cancels the calls whose deadline has passed, and removes the grace periods that have ended.
    pub fn expire(&mut self, now: u64) {
        self.waiting_calls.retain(|call| call.deadline > now);
        self.lost_methods.retain(|_, until| *until > now);
        self.lost_owners.retain(|_, until| *until > now);
    }

    /// Returns the Unix milliseconds at which the first waiting call fails; `None` if no call waits.
    pub fn next_deadline(&self) -> Option<u64> {
        self.waiting_calls.iter().map(|call| call.deadline).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Owner {
        Owner::Session("s".into())
    }

    #[test]
    fn the_number_of_lost_methods_is_limited() {
        let mut grace = GracePeriods::default();
        for n in 0..MAX_LOST_METHODS + 1 {
            grace.on_method_lost(session(), n.to_string(), 0);
        }
        assert_eq!(grace.lost_methods.len(), MAX_LOST_METHODS);
    }
}
