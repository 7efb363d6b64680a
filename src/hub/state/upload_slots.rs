//! Upload slots: which uploads hold memory, and which wait for it.

use std::collections::{HashMap, VecDeque};

use futures::channel::oneshot;

use crate::hub::error::Error;
use crate::limits::{MAX_UPLOAD_BYTES, MAX_UPLOADS_OF_SESSION, MAX_WAITING_UPLOADS};

#[derive(Debug)]
struct Waiting {
    bytes: u64,
    granted: oneshot::Sender<()>,
}

#[derive(Debug, Default)]
pub struct UploadSlots {
    granted_bytes: u64,
    waiting: VecDeque<Waiting>,
    /// The number of uploads of each session, waiting ones included.
    count_by_session: HashMap<String, usize>,
}

impl UploadSlots {
    /// Requests memory for an upload of a session. The receiver resolves once it is granted. Each successful call needs a
    /// call of [`release`](Self::release).
    pub fn acquire(&mut self, session: &str, bytes: u64) -> Result<oneshot::Receiver<()>, Error> {
        if self.count_by_session.get(session).is_some_and(|count| *count >= MAX_UPLOADS_OF_SESSION) {
            return Err(Error::TooManyUploads("Too many files are being uploaded to this session."));
        }
        if self.waiting.len() >= MAX_WAITING_UPLOADS {
            return Err(Error::TooManyUploads("Too many uploads are waiting for memory."));
        }
        *self.count_by_session.entry(session.to_owned()).or_default() += 1;
        let (granted, receiver) = oneshot::channel();
        self.waiting.push_back(Waiting { bytes, granted });
        self.grant_waiting();
        Ok(receiver)
    }

    /// Ends an upload that holds `granted_bytes`: 0 if it was never granted.
    pub fn release(&mut self, session: &str, granted_bytes: u64) {
        if let Some(count) = self.count_by_session.get_mut(session) {
            *count -= 1;
            if *count == 0 {
                self.count_by_session.remove(session);
            }
        }
        self.shrink(granted_bytes);
    }

    /// Releases the part of an upload's memory that the upload does not need.
    pub fn shrink(&mut self, spare_bytes: u64) {
        self.granted_bytes -= spare_bytes;
        self.grant_waiting();
    }

    /// First in, first out: otherwise small uploads could starve a large one.
    fn grant_waiting(&mut self) {
        while let Some(Waiting { bytes, .. }) = self.waiting.front()
            && self.granted_bytes + bytes <= MAX_UPLOAD_BYTES
            && let Some(next) = self.waiting.pop_front()
        {
            if next.granted.send(()).is_ok() {
                self.granted_bytes += next.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_granted(receiver: &mut oneshot::Receiver<()>) -> bool {
        receiver.try_recv().unwrap().is_some()
    }

    #[test]
    fn waiting_uploads_are_granted_in_order() {
        let mut slots = UploadSlots::default();
        let mut large = slots.acquire("a", MAX_UPLOAD_BYTES).unwrap();
        let mut second = slots.acquire("a", MAX_UPLOAD_BYTES - 5).unwrap();
        let mut small = slots.acquire("a", 5).unwrap();
        assert_eq!([&mut large, &mut second, &mut small].map(is_granted), [true, false, false]);
        slots.release("a", MAX_UPLOAD_BYTES);
        assert_eq!([&mut second, &mut small].map(is_granted), [true, true]);
    }

    #[test]
    fn an_upload_canceled_while_waiting_holds_no_memory() {
        let mut slots = UploadSlots::default();
        let _first = slots.acquire("a", MAX_UPLOAD_BYTES).unwrap();
        drop(slots.acquire("a", MAX_UPLOAD_BYTES).unwrap());
        slots.release("a", 0);
        let mut third = slots.acquire("a", MAX_UPLOAD_BYTES).unwrap();
        slots.release("a", MAX_UPLOAD_BYTES);
        assert!(is_granted(&mut third));
    }

    #[test]
    fn the_number_of_waiting_uploads_is_limited() {
        let mut slots = UploadSlots::default();
        let uploads: Vec<_> =
            (0..=MAX_WAITING_UPLOADS).map(|n| slots.acquire(&format!("s{n}"), MAX_UPLOAD_BYTES)).collect();
        assert!(uploads.iter().all(Result::is_ok));
        assert!(slots.acquire("another", 1).is_err());
    }

    #[test]
    fn the_number_of_uploads_of_a_session_is_limited() {
        let mut slots = UploadSlots::default();
        let uploads: Vec<_> = (0..MAX_UPLOADS_OF_SESSION).map(|_| slots.acquire("a", 1)).collect();
        assert!(uploads.iter().all(Result::is_ok));
        let error = slots.acquire("a", 1).unwrap_err().to_string();
        assert!(error.contains("to this session"), "{error}");
        assert!(slots.acquire("b", 1).is_ok());
        slots.release("a", 1);
        assert!(slots.acquire("a", 1).is_ok());
        for _ in 0..MAX_UPLOADS_OF_SESSION {
            slots.release("a", 1);
        }
        slots.release("b", 1);
        assert!(slots.count_by_session.is_empty());
    }
}
