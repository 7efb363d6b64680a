//! Uploads: a file on its way from a web client to a session's CLI. Its content only passes through, outside of the hub's
//! memory ([`UploadBody`]); what the hub adds is written around it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures::channel::oneshot;
use serde::{Deserialize, Serialize};

use crate::hub::Hub;
use crate::hub::error::Error;
use crate::hub::peers::rpc::{Call, RpcError};
use crate::hub::ports::{UploadBody, UploadFault};
use crate::model::method::Method;
use crate::model::owner::Owner;
use crate::wire::fields::read_object;

/// The largest file, in bytes (PROTOCOL.md "Limits": 50 MB).
pub const MAX_FILE: usize = 50 * 1024 * 1024;
/// The longest `filename` and `mimeType`, in characters (PROTOCOL.md "Uploads").
const MAX_NAME: usize = 255;
/// The longest path of an uploaded file, in characters.
const MAX_PATH: usize = 4_096;
/// What may stand in a body beside the content, in bytes.
pub const MAX_REST: usize = 64 * 1024;
/// How much a client has to send in [`STALL_MS`], in bytes: one that stands still keeps others from the room.
pub const STALL_BYTES: u64 = 64 * 1024;
/// How long it may take for that, in milliseconds.
pub const STALL_MS: u64 = 15_000;
/// How much of uploads a hub holds at once, in bytes: one of the largest, which is base64 and JSON around a file. The
/// runtime gives an object 128 MB for everything.
const MAX_UPLOAD_BYTES: u64 = 72 * 1024 * 1024;
/// How many uploads may wait for their turn.
const MAX_WAITING_UPLOADS: usize = 32;
/// How many uploads a session may have, those that wait included: one that keeps many open and sends nothing must not fill
/// the room of all.
const MAX_UPLOADS_OF_SESSION: usize = 16;
/// What a CLI's connection is taken to carry, in bytes a millisecond (2 Mbit/s): a large file gets more time than a call.
const BYTES_PER_MS: u64 = 256;

/// The body of an upload; `content` is an empty string, since the content stays outside.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Upload {
    filename: String,
    content: String,
    mime_type: String,
}

/// The params of `uploadFile`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UploadParams<'a> {
    content: &'a str,
    filename: &'a str,
    mime_type: &'a str,
}

#[derive(Serialize)]
struct DeleteParams<'a> {
    path: &'a str,
}

/// The room for uploads: who has a share of it, and who waits for one.
#[derive(Debug, Default)]
pub struct Room {
    held: u64,
    waiting: VecDeque<(u64, oneshot::Sender<()>)>,
    /// How many uploads each session has.
    of_session: HashMap<String, usize>,
}

impl Room {
    /// Takes a share for a session's upload, at once or when the returned receiver hears so.
    fn enter(&mut self, session: &str, bytes: u64) -> Result<oneshot::Receiver<()>, Error> {
        if self.of_session.get(session).is_some_and(|uploads| *uploads >= MAX_UPLOADS_OF_SESSION) {
            return Err(Error::UploadsWait("Too many files are being uploaded to this session."));
        }
        if self.waiting.len() >= MAX_WAITING_UPLOADS {
            return Err(Error::UploadsWait("Too many uploads wait for their turn."));
        }
        *self.of_session.entry(session.to_owned()).or_default() += 1;
        let (sender, turn) = oneshot::channel();
        self.waiting.push_back((bytes, sender));
        self.admit();
        Ok(turn)
    }

    /// An upload of a session is over.
    fn leave(&mut self, session: &str) {
        if let Some(uploads) = self.of_session.get_mut(session) {
            *uploads -= 1;
            if *uploads == 0 {
                self.of_session.remove(session);
            }
        }
    }

    fn give_back(&mut self, bytes: u64) {
        self.held -= bytes;
        self.admit();
    }

    /// In the order of their coming, so that many small ones do not keep a large one out.
    fn admit(&mut self) {
        while let Some((bytes, _)) = self.waiting.front()
            && self.held + bytes <= MAX_UPLOAD_BYTES
            && let Some((bytes, sender)) = self.waiting.pop_front()
        {
            if sender.send(()).is_ok() {
                self.held += bytes;
            }
        }
    }
}

/// A share of the room, or the wait for one; given back when it is dropped.
struct Share<'a> {
    hub: &'a Hub,
    session: &'a str,
    bytes: u64,
    /// Until it is known that the turn has come.
    turn: Option<oneshot::Receiver<()>>,
}

impl Share<'_> {
    /// Gives back what turned out not to be needed.
    fn shrink(&mut self, bytes: u64) {
        let spare = self.bytes.saturating_sub(bytes);
        self.bytes -= spare;
        self.hub.state().uploads.give_back(spare);
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        // A turn may have come that nobody took notice of.
        let held = self.turn.as_mut().is_none_or(|turn| matches!(turn.try_recv(), Ok(Some(()))));
        let uploads = &mut self.hub.state().uploads;
        uploads.leave(self.session);
        if held {
            uploads.give_back(self.bytes);
        }
    }
}

impl Hub {
    /// Hands a file to the session's CLI; answers what the CLI answered, as JSON text.
    pub async fn upload(self: &Arc<Self>, id: &str, body: &dyn UploadBody) -> Result<String, Error> {
        let mut share = self.share(id, body.declared().unwrap_or(MAX_UPLOAD_BYTES)).await?;
        let rest = body.read().await?;
        share.shrink(body.length());
        let upload: Upload = read_object(&rest).map_err(Error::from_body)?;
        upload.check()?;
        self.require_active(id).await?;
        let limit = self.config.rpc_timeout_ms + share.bytes / BYTES_PER_MS;
        let call = self.open_call(&Owner::Session(id.to_owned()), Method::UploadFile, limit).await.map_err(failed)?;
        let (head, tail) = upload.around(&call);
        body.send(call.conn, &head, &tail);
        call.answered().await.map_err(failed)
    }

    /// Has the session's CLI delete an uploaded file; answers what it answered, as JSON text.
    pub async fn delete_upload(self: &Arc<Self>, id: &str, path: &str) -> Result<String, Error> {
        check_length("path", path, MAX_PATH)?;
        self.require_active(id).await?;
        let params = serde_json::to_string(&DeleteParams { path }).unwrap_or_default();
        self.call(&Owner::Session(id.to_owned()), Method::DeleteUploadFile, &params).await.map_err(failed)
    }

    /// Waits for a share of the room for uploads. What is too large for it will be refused unread.
    async fn share<'a>(&'a self, session: &'a str, bytes: u64) -> Result<Share<'a>, Error> {
        let bytes = bytes.min(MAX_UPLOAD_BYTES);
        let turn = self.state().uploads.enter(session, bytes)?;
        let mut share = Share { hub: self, session, bytes, turn: Some(turn) };
        if let Some(turn) = &mut share.turn {
            // The room lives as long as the hub.
            let _ = turn.await;
        }
        share.turn = None;
        Ok(share)
    }
}

impl Upload {
    fn check(&self) -> Result<(), Error> {
        check_length("filename", &self.filename, MAX_NAME)?;
        check_length("mimeType", &self.mime_type, MAX_NAME)
    }

    /// The frame of the call, cut in two where the content belongs. ASCII, so that with the content, which is ASCII too, it
    /// takes one byte a character.
    fn around(&self, call: &Call) -> (String, String) {
        let params = UploadParams { content: &self.content, filename: &self.filename, mime_type: &self.mime_type };
        let frame = ascii(&call.frame(&serde_json::to_string(&params).unwrap_or_default()));
        // From behind: what the CLI registered stands before it, and a file name would have its quotes escaped once more.
        let place = frame.rfind(CONTENT).map_or(frame.len(), |at| at + CONTENT.len());
        let (head, tail) = frame.split_at(place);
        (head.to_owned(), tail.to_owned())
    }
}

/// How the content begins in the frame: params are JSON inside a JSON string.
const CONTENT: &str = r#"\"content\":\""#;

/// JSON text with everything but ASCII escaped.
fn ascii(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() {
            escaped.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    escaped
}

fn check_length(field: &str, text: &str, longest: usize) -> Result<(), Error> {
    if (1..=longest).contains(&text.chars().count()) {
        return Ok(());
    }
    Err(Error::field(field, format!("Field `{field}` must have 1 to {longest} characters.")))
}

fn failed(error: RpcError) -> Error {
    Error::UploadFailed(error.to_string())
}

impl From<UploadFault> for Error {
    fn from(fault: UploadFault) -> Self {
        match fault {
            UploadFault::TooLarge => Self::TooLarge { what: "file", limit: MAX_FILE },
            UploadFault::RestTooLarge => Self::TooLarge { what: "body beside its `content`", limit: MAX_REST },
            UploadFault::BadBase64 => {
                Self::field("content", "Field `content` must be base64 with padding: A-Z a-z 0-9 + / and = at its end.")
            }
            UploadFault::NotUtf8 => Self::InvalidBody("It is not valid UTF-8.".into()),
            UploadFault::Broken => Self::InvalidBody("It broke off before its end.".into()),
            UploadFault::Stalled => Self::UploadStalled { kib: STALL_BYTES / 1024, seconds: STALL_MS / 1000 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_wait_for_their_turn_and_get_it_in_the_order_of_their_coming() {
        let mut room = Room::default();
        let mut large = room.enter("a", MAX_UPLOAD_BYTES).unwrap();
        let mut second = room.enter("a", MAX_UPLOAD_BYTES - 5).unwrap();
        let mut small = room.enter("a", 5).unwrap();
        let turns =
            |receivers: [&mut oneshot::Receiver<()>; 3]| receivers.map(|r| r.try_recv().ok().flatten().is_some());
        assert_eq!(turns([&mut large, &mut second, &mut small]), [true, false, false]);
        room.give_back(MAX_UPLOAD_BYTES);
        assert_eq!([&mut second, &mut small].map(|r| r.try_recv().unwrap().is_some()), [true, true]);
    }

    #[test]
    fn whoever_waits_in_vain_takes_no_room() {
        let mut room = Room::default();
        let _first = room.enter("a", MAX_UPLOAD_BYTES).unwrap();
        drop(room.enter("a", MAX_UPLOAD_BYTES).unwrap());
        let mut third = room.enter("a", MAX_UPLOAD_BYTES).unwrap();
        room.give_back(MAX_UPLOAD_BYTES);
        assert!(third.try_recv().unwrap().is_some());
    }

    #[test]
    fn only_so_many_uploads_may_wait() {
        let mut room = Room::default();
        let turns: Vec<_> = (0..=MAX_WAITING_UPLOADS).map(|n| room.enter(&format!("s{n}"), MAX_UPLOAD_BYTES)).collect();
        assert!(turns.iter().all(Result::is_ok));
        assert!(room.enter("another", 1).is_err());
    }

    #[test]
    fn a_session_has_so_many_uploads_at_once_and_leaves_room_for_the_others() {
        let mut room = Room::default();
        let turns: Vec<_> = (0..MAX_UPLOADS_OF_SESSION).map(|_| room.enter("a", 1)).collect();
        assert!(turns.iter().all(Result::is_ok));
        let refused = room.enter("a", 1).unwrap_err().to_string();
        assert!(refused.contains("to this session"), "{refused}");
        assert!(room.enter("b", 1).is_ok());
        room.leave("a");
        assert!(room.enter("a", 1).is_ok());
        for _ in 0..MAX_UPLOADS_OF_SESSION {
            room.leave("a");
        }
        room.leave("b");
        assert!(room.of_session.is_empty());
    }

    #[test]
    fn a_frame_around_a_content_is_ascii_and_still_says_the_same() {
        let text = "{\"filename\":\"\u{fc}\u{1f600}\"}";
        let escaped = ascii(text);
        assert!(escaped.is_ascii());
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&escaped), read(text));
    }
}
