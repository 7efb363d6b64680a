//! RPC calls to CLIs. If the CLI has just disconnected, a call waits for a [grace period](crate::hub::core::peers::rpc).

use futures::channel::oneshot;
use futures::future::BoxFuture;

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::core::peers::rpc::{Call, RpcError, RpcResult, rejection_reason};
use crate::hub::core::ports::ConnId;
use crate::hub::turn::Turn;
use crate::limits::KILL_TIMEOUT_MS;
use crate::metrics::{Counter, DurationMetric};
use crate::model::json::Json;
use crate::model::method::Method;
use crate::model::owner::Owner;
use crate::model::vocabulary::Dialect;

/// The largest acknowledgement id of a call: the Socket.IO clients for Java, C++ and Rust read ids as signed 32-bit integers.
const MAX_CALL_ACK_ID: u32 = i32::MAX.cast_unsigned();

impl Hub {
    /// Calls a method of a CLI, and returns its result as JSON text.
    pub async fn call(&self, owner: &Owner, method: Method, params: &Json) -> RpcResult {
        self.call_in_dialect(owner, method, &|_| params.clone()).await
    }

    /// Calls a method, and returns its result, or `{success: false, error}` for a failed call.
    pub async fn call_or_failure(&self, owner: &Owner, method: Method, params: &Json) -> String {
        self.call(owner, method, params).await.unwrap_or_else(|error| {
            let members = [("success", Json::of(&false)), ("error", Json::of(&error.to_string()))];
            Json::object(&members).text().to_owned()
        })
    }

    /// Calls a method with params in the dialect of the CLI, which the name decides under which the CLI registered the method.
    pub fn call_in_dialect<'a>(
        &'a self,
        owner: &'a Owner,
        method: Method,
        make_params: &'a (dyn Fn(Dialect) -> Json + Send + Sync),
    ) -> BoxFuture<'a, RpcResult> {
        Box::pin(async move {
            let started_at = self.rt.now();
            let timeout_ms = if method == Method::KillSession { KILL_TIMEOUT_MS } else { self.config.rpc_timeout_ms };
            let called = async {
                let call = self.open_call(owner, method, timeout_ms).await?;
                let dialect = self.config.vocabulary.dialect_of_method(call.unprefixed_name());
                self.send_call(call, method, make_params(dialect).text()).await
            };
            let result = called.await;
            let metrics = &self.telemetry.metrics;
            metrics.count(match &result {
                Ok(_) => Counter::CallAnswered,
                Err(RpcError::TimedOut(_)) => Counter::CallTimedOut,
                Err(RpcError::Disconnected(_)) => Counter::CallDisconnected,
                Err(RpcError::NoHandler { .. }) => Counter::CallWithoutMethod,
                Err(RpcError::InvalidResult(_)) => Counter::CallInvalid,
            });
            metrics.measure(DurationMetric::Call, self.rt.now().saturating_sub(started_at));
            result
        })
    }

    /// Sends a call, and waits for its result. If the [hub changes the session](Method::is_followed_by_session_change) after the call,
    /// also waits until the frames that the CLI sent before the result are handled, because they may change the same session.
    async fn send_call(&self, call: Call, method: Method, params: &str) -> RpcResult {
        let conn = call.conn;
        self.turn().send_frame(conn, &call.frame(params));
        let result = call.result().await;
        // The frames of a CLI that does not answer must not delay the caller.
        let is_answered = matches!(result, Ok(_) | Err(RpcError::InvalidResult(_)));
        if is_answered
            && method.is_followed_by_session_change()
            && let Some(frames_handled) = { self.turn().connections.wait_for_frames(conn) }
        {
            // Fails if the socket was closed and its frames were dropped.
            let _ = frames_handled.await;
        }
        result
    }

    /// Opens a call, which the caller must send or cancel. If the CLI has just disconnected, waits until it reconnects.
    pub(in crate::hub) async fn open_call(
        &self,
        owner: &Owner,
        method: Method,
        timeout_ms: u64,
    ) -> Result<Call, RpcError> {
        let deadline = self.rt.now() + timeout_ms;
        loop {
            let opened = self.turn().try_call(owner, method, deadline, deadline);
            let reconnected = match opened {
                Ok(call) => return Ok(call),
                Err(Some(reconnected)) => reconnected.await,
                Err(None) => Err(oneshot::Canceled),
            };
            if reconnected.is_err() {
                let unrecognized_methods = self.turn().rpc.unrecognized_methods(owner);
                return Err(RpcError::NoHandler { method: method.into_str().to_owned(), unrecognized_methods });
            }
        }
    }

    /// Calls a method without a result. Each answer is a success, even an invalid one, unless the answer reports a failure.
    pub(in crate::hub) async fn call_without_result(
        &self,
        id: &str,
        method: Method,
        params: &Json,
    ) -> Result<(), Error> {
        match self.call(&Owner::Session(id.to_owned()), method, params).await {
            Ok(result) => rejection_reason(&result).map_or(Ok(()), |message| Err(Error::CliRefused(message))),
            Err(RpcError::InvalidResult(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Turn<'_> {
    /// Calls a method of the socket `conn`, or of any socket, and ignores the result. Does nothing if no such socket has registered it.
    pub fn call_ignoring_result(&mut self, owner: &Owner, conn: Option<ConnId>, method: Method, params: &str) {
        let now = self.hub.rt.now();
        let Ok(call) = self.try_call(owner, method, now + self.hub.config.rpc_timeout_ms, now) else { return };
        if conn.is_none_or(|conn| call.conn == conn) {
            self.send_frame(call.conn, &call.frame(params));
        } else {
            self.state.rpc.cancel(&call);
        }
    }

    /// Opens a call. On failure, returns a receiver for the reconnection of the CLI, canceled at `wait_deadline`, unless none is expected.
    fn try_call(
        &mut self,
        owner: &Owner,
        method: Method,
        deadline: u64,
        wait_deadline: u64,
    ) -> Result<Call, Option<oneshot::Receiver<()>>> {
        // Random, so a late answer from before a restart does not match a new call.
        let ack = loop {
            let ack = u64::from(u32::from_be_bytes(self.hub.ids.bytes()) & MAX_CALL_ACK_ID);
            if ack > 0 && !self.state.rpc.is_pending(ack) {
                break ack;
            }
        };
        if let Some(call) = self.state.rpc.open_call(owner, method.into_str(), ack, deadline) {
            self.request_alarm(Some(deadline));
            return Ok(call);
        }
        // The owner of a disconnected CLI stays live until its deadline. If it is not live, its CLI has ended it and does not reconnect.
        if !self.state.liveness.is_live(owner) {
            return Err(None);
        }
        let reconnected =
            self.state.rpc.grace.wait_for_method(owner, method.into_str(), self.hub.rt.now(), wait_deadline);
        self.request_alarm(self.state.rpc.grace.next_deadline());
        Err(reconnected)
    }
}
