//! The push requests of an object that have no response yet.

use std::sync::Mutex;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use http::Request;
use session_gateway_hub::hub::core::ports::PushResponse;

use super::scheduler::{Incarnation, lock};

type Response = Result<PushResponse, String>;

/// A push request without a response.
pub struct PushRequest {
    pub number: u64,
    pub incarnation: Incarnation,
    pub http: Request<Vec<u8>>,
    /// `None` until the request is checked.
    pub subject: Option<Subject>,
    /// When the request times out, if the push service hangs.
    pub times_out_at: Option<u64>,
    pub response: oneshot::Sender<Response>,
}

/// The pending push requests of an object.
#[derive(Default)]
pub struct PushOutbox(Mutex<(u64, Vec<PushRequest>)>);

impl PushOutbox {
    /// Sends a push request. The simulation decides when and how the push service responds.
    pub fn send(&self, incarnation: Incarnation, request: Request<Vec<u8>>) -> BoxFuture<'static, Response> {
        let (response, receiver) = oneshot::channel();
        let (last_number, pending) = &mut *lock(&self.0);
        *last_number += 1;
        let number = *last_number;
        pending.push(PushRequest { number, incarnation, http: request, subject: None, times_out_at: None, response });
        receiver.map(|response| response.unwrap_or_else(|_| Err("The object has crashed.".into()))).boxed()
    }

    /// The numbers of the requests that can get a response or time out now.
    pub fn runnable(&self, now: u64) -> Vec<u64> {
        let pending = &lock(&self.0).1;
        let runnable = pending.iter().filter(|request| request.times_out_at.is_none_or(|time| time <= now));
        runnable.map(|request| request.number).collect()
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.0).1.is_empty()
    }

    /// Removes and returns the requests that the predicate selects.
    pub fn take_where(&self, predicate: impl Fn(&PushRequest) -> bool) -> Vec<PushRequest> {
        lock(&self.0).1.extract_if(.., |request| predicate(request)).collect()
    }

    pub fn put_back(&self, request: PushRequest) {
        lock(&self.0).1.push(request);
    }
}

/// The subject of a notification: a permission request, or a session with a ready event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    Request(String),
    Ready(String),
}
