//! Upload slots limit how many uploads are in progress. Further uploads wait.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use futures::channel::oneshot;

use crate::hub::core::error::Error;
use crate::memory_budget::lock;

/// How many uploads a namespace processes at a time. Further uploads wait.
const MAX_UPLOADS_AT_ONCE: usize = 8;
const MAX_WAITING_UPLOADS: usize = 32;
/// How many uploads a session may have, waiting or in progress (PROTOCOL-WEB.md "Uploads"). So one session cannot fill the queue.
const MAX_UPLOADS_OF_SESSION: usize = 16;
/// The time after which a frame upload slot expires, in milliseconds: the object that holds it may have ended without releasing it.
const FRAME_UPLOAD_SLOT_MS: u64 = 1_800_000;

/// The slots of a namespace.
#[derive(Debug, Default)]
pub struct UploadSlots {
    granted_count: usize,
    waiting: VecDeque<oneshot::Sender<()>>,
    /// The number of uploads of each session, waiting ones included.
    count_by_session: HashMap<String, usize>,
}

impl UploadSlots {
    /// Requests a slot for an upload. The receiver resolves once it is granted. [`release`](Self::release) must follow each success.
    pub fn request(&mut self, session: &str) -> Result<oneshot::Receiver<()>, Error> {
        if self.count_by_session.get(session).is_some_and(|count| *count >= MAX_UPLOADS_OF_SESSION) {
            return Err(Error::TooManyUploads("This session already has 16 uploads, the maximum."));
        }
        if self.waiting.len() >= MAX_WAITING_UPLOADS {
            return Err(Error::TooManyUploads("32 uploads of this namespace are already waiting, the maximum."));
        }
        *self.count_by_session.entry(session.to_owned()).or_default() += 1;
        let (grant_sender, grant) = oneshot::channel();
        self.waiting.push_back(grant_sender);
        self.grant_waiting();
        Ok(grant)
    }

    /// Ends an upload, whether or not its slot was granted.
    pub fn release(&mut self, session: &str, was_granted: bool) {
        if let Some(count) = self.count_by_session.get_mut(session) {
            *count -= 1;
            if *count == 0 {
                self.count_by_session.remove(session);
            }
        }
        self.granted_count -= usize::from(was_granted);
        self.grant_waiting();
    }

    fn grant_waiting(&mut self) {
        while self.granted_count < MAX_UPLOADS_AT_ONCE
            && let Some(next) = self.waiting.pop_front()
        {
            self.granted_count += usize::from(next.send(()).is_ok());
        }
    }
}

/// The slot for an upload in one large frame. The namespaces of an isolate share its memory, and take turns.
#[derive(Debug, Default)]
pub struct FrameUploadSlot(Mutex<FrameUploadQueue>);

#[derive(Debug, Default)]
struct FrameUploadQueue {
    holder: Option<FrameUpload>,
    /// The namespace that got the slot last.
    last_namespace: String,
    last_ticket: u64,
    /// The waiting uploads, oldest first.
    waiting: Vec<FrameUpload>,
}

#[derive(Debug)]
struct FrameUpload {
    ticket: u64,
    namespace: String,
    /// When the place or the slot expires, in Unix milliseconds: the object may have ended without dropping its ticket.
    expires_at: u64,
}

/// A place in the queue for the [`FrameUploadSlot`], then the slot itself. Released on drop.
#[derive(Debug)]
pub struct FrameUploadTicket {
    slot: Arc<FrameUploadSlot>,
    ticket: u64,
}

impl FrameUploadSlot {
    /// Adds an upload to the queue. `expires_at`: when its place in the queue expires, in Unix milliseconds.
    pub fn join_queue(self: &Arc<Self>, namespace: &str, expires_at: u64) -> FrameUploadTicket {
        let mut queue = lock(&self.0);
        queue.last_ticket += 1;
        let ticket = queue.last_ticket;
        queue.waiting.push(FrameUpload { ticket, namespace: namespace.to_owned(), expires_at });
        FrameUploadTicket { slot: Arc::clone(self), ticket }
    }
}

impl FrameUploadTicket {
    /// Takes the slot if the slot is free and this upload is the next. The next upload is the oldest upload of a namespace that did not
    /// have the slot last. If there is no such upload, the oldest of all is the next.
    pub fn try_acquire(&mut self, now: u64) -> bool {
        let mut queue = lock(&self.slot.0);
        queue.waiting.retain(|upload| upload.expires_at >= now);
        let FrameUploadQueue { holder, waiting, last_namespace, .. } = &*queue;
        let is_taken = holder.as_ref().is_some_and(|upload| upload.expires_at >= now);
        let next = waiting.iter().position(|upload| upload.namespace != *last_namespace).unwrap_or(0);
        if is_taken || waiting.get(next).is_none_or(|upload| upload.ticket != self.ticket) {
            return false;
        }
        let upload = FrameUpload { expires_at: now + FRAME_UPLOAD_SLOT_MS, ..queue.waiting.remove(next) };
        queue.last_namespace.clone_from(&upload.namespace);
        queue.holder = Some(upload);
        true
    }

    /// Whether an upload of another namespace waits for the slot that this upload holds.
    pub fn is_contested(&self, now: u64) -> bool {
        let queue = lock(&self.slot.0);
        queue.waiting.iter().any(|upload| upload.expires_at >= now && upload.namespace != queue.last_namespace)
    }
}

impl Drop for FrameUploadTicket {
    fn drop(&mut self) {
        let mut queue = lock(&self.slot.0);
        queue.holder.take_if(|upload| upload.ticket == self.ticket);
        queue.waiting.retain(|upload| upload.ticket != self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_granted(receiver: &mut oneshot::Receiver<()>) -> bool {
        receiver.try_recv().unwrap().is_some()
    }

    fn slots_with_free(free: usize) -> UploadSlots {
        let mut slots = UploadSlots::default();
        for n in free..MAX_UPLOADS_AT_ONCE {
            drop(slots.request(&format!("busy{n}")).unwrap());
        }
        slots.granted_count = MAX_UPLOADS_AT_ONCE - free;
        slots
    }

    #[test]
    fn an_upload_canceled_while_waiting_takes_no_slot() {
        let mut slots = slots_with_free(1);
        let _first = slots.request("a").unwrap();
        drop(slots.request("a").unwrap());
        slots.release("a", false);
        let mut third = slots.request("a").unwrap();
        slots.release("a", true);
        assert!(is_granted(&mut third));
    }

    #[test]
    fn the_number_of_waiting_uploads_is_limited() {
        let mut slots = slots_with_free(0);
        let uploads: Vec<_> = (0..MAX_WAITING_UPLOADS).map(|n| slots.request(&format!("s{n}"))).collect();
        assert!(uploads.iter().all(Result::is_ok));
        let error = slots.request("another").unwrap_err().to_string();
        assert!(error.starts_with(&MAX_WAITING_UPLOADS.to_string()), "{error}");
    }

    #[test]
    fn the_number_of_uploads_of_a_session_is_limited() {
        let mut slots = UploadSlots::default();
        let uploads: Vec<_> = (0..MAX_UPLOADS_OF_SESSION).map(|_| slots.request("a")).collect();
        assert!(uploads.iter().all(Result::is_ok));
        let error = slots.request("a").unwrap_err().to_string();
        assert!(error.contains(&format!("session already has {MAX_UPLOADS_OF_SESSION} uploads")), "{error}");
        assert!(slots.request("b").is_ok());
        slots.release("b", false);
        for _ in 0..MAX_UPLOADS_OF_SESSION {
            slots.release("a", slots.granted_count > 0);
        }
        assert!(slots.count_by_session.is_empty());
    }

    #[test]
    fn namespaces_take_turns_with_the_frame_upload_slot() {
        let slot = Arc::new(FrameUploadSlot::default());
        let mut tickets = ["a", "a", "a", "b", "c"].map(|namespace| Some(slot.join_queue(namespace, 60)));
        slot.join_queue("gone", 60);
        slot.join_queue("expired", 5);
        let order = [0, 3, 1, 4, 2];
        for next in order {
            let acquired =
                tickets.each_mut().map(|ticket| ticket.as_mut().is_some_and(|ticket| ticket.try_acquire(10)));
            assert_eq!(acquired.iter().position(|is_acquired| *is_acquired), Some(next));
            assert_eq!(acquired.iter().filter(|is_acquired| **is_acquired).count(), 1);
            tickets[next] = None;
        }
        let mut lost = slot.join_queue("a", 60);
        assert!(lost.try_acquire(10));
        let end = 10 + FRAME_UPLOAD_SLOT_MS;
        let mut after = slot.join_queue("b", end + 1);
        assert!(!after.try_acquire(end));
        assert!(after.try_acquire(end + 1), "the slot of an object that has ended is free after its time");
        drop(lost);
        assert!(!slot.join_queue("c", end + 1).try_acquire(end + 1));
    }
}
