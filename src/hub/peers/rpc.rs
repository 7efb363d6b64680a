//! RPC: which socket serves which method, and the calls that wait for an answer. A state machine without IO.

use std::collections::{BTreeMap, HashMap};

use futures::channel::oneshot;

use crate::hub::limits::MAX_RPC_TIMEOUT_MS;
use crate::hub::peers::grace::Grace;
use crate::hub::ports::ConnId;
use crate::model::json::unescape;
use crate::model::owner::Owner;
use crate::wire::cli::{NAMESPACE, rpc_request};
use crate::wire::field_types::optional_scalar;
use crate::wire::socketio;

/// Reads `RPC_TIMEOUT_MS`; the error says what is wrong.
pub fn parse_timeout_ms(text: &str) -> Result<u64, String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let ms = text.parse().ok().filter(|ms| plain && (1..=MAX_RPC_TIMEOUT_MS).contains(ms));
    ms.ok_or_else(|| format!("RPC_TIMEOUT_MS must be a whole number from 1 to {MAX_RPC_TIMEOUT_MS}, but is `{text}`."))
}

/// Why a call brought no result; each names the method.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RpcError {
    /// No socket serves the method.
    #[error("No handler registered for {0}")]
    NoHandler(String),
    /// The CLI did not answer in time.
    #[error("RPC timed out: {0}")]
    TimedOut(String),
    /// The CLI's socket closed while the call was open.
    #[error("The CLI disconnected before it answered {0}")]
    Disconnected(String),
    /// The CLI acknowledged with something else than a JSON object.
    #[error("The CLI's answer to {0} is not a JSON object")]
    BadAnswer(String),
    /// The CLI acknowledged with a packet that can't be read.
    #[error("The CLI's answer to {0} could not be read: it must be text, not binary")]
    Unreadable(String),
}

/// The answer to a call: the result as JSON text.
pub type Answer = Result<String, RpcError>;

#[derive(Debug)]
struct Route {
    conn: ConnId,
    /// The name under which the CLI registered the method, and under which it is called.
    name: String,
}

#[derive(Debug)]
struct Pending {
    conn: ConnId,
    method: String,
    deadline: u64,
    answer: oneshot::Sender<Answer>,
}

/// A call that is to be sent.
#[derive(Debug)]
pub struct Call {
    /// The socket to send it to.
    pub conn: ConnId,
    /// The method's name as the CLI registered it.
    name: String,
    method: String,
    ack: u64,
    answer: oneshot::Receiver<Answer>,
}

impl Call {
    /// The frame that makes the call, with its params as JSON text.
    pub fn frame(&self, params: &str) -> String {
        let request = rpc_request(&self.name, params);
        socketio::event_frame(NAMESPACE, Some(self.ack), "rpc-request", &[&request])
    }

    /// The answer, once it is there.
    pub async fn answered(self) -> Answer {
        self.answer.await.unwrap_or(Err(RpcError::Disconnected(self.method)))
    }
}

/// Registered methods and pending calls.
#[derive(Debug, Default)]
pub struct Rpc {
    routes: HashMap<(Owner, String), Route>,
    pending: BTreeMap<u64, Pending>,
    /// The methods that may be served again in a moment, and the calls that wait for them.
    pub grace: Grace,
}

impl Rpc {
    /// Registers a method for a socket. The last registration wins; answers which other socket lost it, and the name it
    /// had there.
    pub fn register(
        &mut self,
        owner: Owner,
        method: &str,
        name: &str,
        conn: ConnId,
        now: u64,
    ) -> Option<(ConnId, String)> {
        self.grace.back(&owner, method, now);
        let lost = self.routes.insert((owner, method.to_owned()), Route { conn, name: name.to_owned() });
        lost.filter(|route| route.conn != conn).map(|route| (route.conn, route.name))
    }

    /// Takes a registration back, if it is still this socket's.
    pub fn unregister(&mut self, owner: Owner, method: &str, conn: ConnId) {
        let key = (owner, method.to_owned());
        if self.routes.get(&key).is_some_and(|route| route.conn == conn) {
            self.routes.remove(&key);
        }
    }

    /// Whether somebody serves a method.
    pub fn serves(&self, owner: Owner, method: &str) -> bool {
        self.routes.contains_key(&(owner, method.to_owned()))
    }

    /// Opens a call under an acknowledgement id that must be fresh; the caller sends it. `None`: nobody serves the method.
    pub fn call(&mut self, owner: &Owner, method: &str, ack: u64, deadline: u64) -> Option<Call> {
        let route = self.routes.get(&(owner.clone(), method.to_owned()))?;
        let (sender, answer) = oneshot::channel();
        self.pending.insert(ack, Pending { conn: route.conn, method: method.to_owned(), deadline, answer: sender });
        Some(Call { conn: route.conn, name: route.name.clone(), method: method.to_owned(), ack, answer })
    }

    /// A CLI acknowledged. Late answers, and answers of another socket than the one that was asked, count for nothing.
    pub fn resolve(&mut self, conn: ConnId, ack: u64, args: &[&serde_json::value::RawValue]) {
        if self.pending.get(&ack).is_none_or(|pending| pending.conn != conn) {
            return;
        }
        if let Some(pending) = self.pending.remove(&ack) {
            let answer = read_answer(args).ok_or(RpcError::BadAnswer(pending.method));
            let _ = pending.answer.send(answer);
        }
    }

    /// A CLI acknowledged with a packet that can't be read.
    pub fn unreadable(&mut self, conn: ConnId, ack: u64) {
        if self.pending.get(&ack).is_some_and(|pending| pending.conn == conn)
            && let Some(pending) = self.pending.remove(&ack)
        {
            let _ = pending.answer.send(Err(RpcError::Unreadable(pending.method)));
        }
    }

    /// A socket is gone: its methods go with it and are missed for a moment, its calls fail at once.
    pub fn disconnect(&mut self, conn: ConnId, now: u64) {
        for ((owner, method), _) in self.routes.extract_if(|_, route| route.conn == conn) {
            self.grace.left(owner, method, now);
        }
        for pending in extract(&mut self.pending, |pending| pending.conn == conn) {
            let _ = pending.answer.send(Err(RpcError::Disconnected(pending.method)));
        }
    }

    /// Fails the calls whose time is over, and those that have waited long enough to be made.
    pub fn expire(&mut self, now: u64) {
        self.grace.expire(now);
        for pending in extract(&mut self.pending, |pending| pending.deadline <= now) {
            let _ = pending.answer.send(Err(RpcError::TimedOut(pending.method)));
        }
    }

    /// When the next call's time is over.
    pub fn next_deadline(&self) -> Option<u64> {
        self.pending.values().map(|pending| pending.deadline).chain(self.grace.next_deadline()).min()
    }

    /// Whether an acknowledgement id is in use.
    pub fn is_pending(&self, ack: u64) -> bool {
        self.pending.contains_key(&ack)
    }
}

fn extract(pending: &mut BTreeMap<u64, Pending>, over: impl Fn(&Pending) -> bool) -> Vec<Pending> {
    let ids: Vec<u64> = pending.iter().filter(|(_, p)| over(p)).map(|(id, _)| *id).collect();
    ids.into_iter().filter_map(|id| pending.remove(&id)).collect()
}

/// What a result says when the CLI did not do what it was told.
pub fn refusal(result: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Effect {
        #[serde(default, deserialize_with = "optional_scalar")]
        success: Option<bool>,
        error: Option<String>,
    }
    let outcome: Effect = serde_json::from_str(result).ok()?;
    (outcome.success == Some(false)).then(|| outcome.error.unwrap_or_else(|| "it gave no reason".into()))
}

/// The result is a JSON object inside a JSON string; a CLI that acknowledges with the object itself is understood too.
fn read_answer(args: &[&serde_json::value::RawValue]) -> Option<String> {
    let text = args.first()?.get();
    let object = if text.starts_with('"') { unescape(text)? } else { text.to_owned() };
    let is_object = object.trim_start().starts_with('{');
    let valid = is_object && serde_json::from_str::<&serde_json::value::RawValue>(&object).is_ok();
    valid.then_some(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    fn session(id: &str) -> Owner {
        Owner::Session(id.into())
    }

    fn acknowledge(rpc: &mut Rpc, conn: ConnId, ack: u64, text: &str) {
        let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
        rpc.resolve(conn, ack, &[&raw]);
    }

    #[test]
    fn a_timeout_is_a_number_of_milliseconds_and_nothing_else() {
        assert_eq!([parse_timeout_ms("1"), parse_timeout_ms("600000")], [Ok(1), Ok(600_000)]);
        for wrong in ["30s", "0", "-1", "+1", "1.5", "3e4", "", " 30000", "600001", "99999999999999999999", "true"] {
            let error = parse_timeout_ms(wrong).unwrap_err();
            assert!(error.contains("RPC_TIMEOUT_MS") && error.contains(&format!("`{wrong}`")), "{error}");
        }
    }

    #[test]
    fn an_answer_reaches_the_call_it_belongs_to() {
        let mut rpc = Rpc::default();
        rpc.register(session("s"), "gitStatus", "s:gitStatus", 1, 0);
        let mut call = rpc.call(&session("s"), "gitStatus", 77, 1000).unwrap();
        assert_eq!((call.conn, call.name.as_str()), (1, "s:gitStatus"));
        acknowledge(&mut rpc, 1, 77, r#""{\"success\":true}""#);
        assert_eq!(call.answer.try_recv().unwrap().unwrap(), Ok(r#"{"success":true}"#.into()));
    }

    #[test]
    fn a_method_is_known_only_to_the_session_or_machine_that_registered_it() {
        let mut rpc = Rpc::default();
        rpc.register(session("s"), "readFile", "readFile", 1, 0);
        for owner in [session("t"), Owner::Machine("s".into())] {
            assert!(rpc.call(&owner, "readFile", 1, 9).is_none(), "{owner:?}");
        }
    }

    #[test]
    fn the_last_registration_wins_and_the_loser_cannot_take_it_back() {
        let mut rpc = Rpc::default();
        rpc.register(session("s"), "m", "m", 1, 0);
        rpc.register(session("s"), "m", "m", 2, 0);
        rpc.unregister(session("s"), "m", 1);
        rpc.disconnect(1, 0);
        assert_eq!(rpc.call(&session("s"), "m", 5, 9).unwrap().conn, 2);
    }

    #[test]
    fn another_socket_cannot_answer_a_call() {
        let mut rpc = Rpc::default();
        rpc.register(session("s"), "m", "m", 1, 0);
        let mut call = rpc.call(&session("s"), "m", 5, 9).unwrap();
        acknowledge(&mut rpc, 2, 5, "{}");
        assert!(call.answer.try_recv().unwrap().is_none());
    }

    #[test]
    fn calls_end_with_their_time_or_their_socket() {
        let mut rpc = Rpc::default();
        rpc.register(session("s"), "m", "m", 1, 0);
        let mut late = rpc.call(&session("s"), "m", 1, 100).unwrap();
        let mut cut = rpc.call(&session("s"), "m", 2, 200).unwrap();
        assert_eq!(rpc.next_deadline(), Some(100));
        rpc.expire(100);
        assert_eq!(late.answer.try_recv().unwrap().unwrap(), Err(RpcError::TimedOut("m".into())));
        rpc.disconnect(1, 0);
        assert_eq!(cut.answer.try_recv().unwrap().unwrap(), Err(RpcError::Disconnected("m".into())));
        assert_eq!(rpc.next_deadline(), None);
    }

    #[test]
    fn an_answer_that_is_no_json_object_is_an_error_of_its_own() {
        for text in [r#""not json""#, "[]", "null", r#""[1]""#, r#""{""#] {
            let mut rpc = Rpc::default();
            rpc.register(session("s"), "m", "m", 1, 0);
            let mut call = rpc.call(&session("s"), "m", 1, 9).unwrap();
            acknowledge(&mut rpc, 1, 1, text);
            assert_eq!(call.answer.try_recv().unwrap().unwrap(), Err(RpcError::BadAnswer("m".into())), "{text}");
        }
    }
}
