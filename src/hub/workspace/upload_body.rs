//! Reading the body of an upload, and sending its content in frames.

use std::ops::RangeInclusive;

use serde::Deserialize;

use crate::hub::core::error::Error;
use crate::hub::core::peers::rpc::{Call, RpcError};
use crate::hub::core::ports::{UploadBody, UploadFault};
use crate::limits::MAX_UPLOAD_FIELDS_BYTES;
use crate::wire::fields::read_object;

/// The largest file that is sent to a CLI in one frame, in bytes.
pub const MAX_FRAME_FILE_BYTES: u64 = 50 * 1024 * 1024;

/// The longest `filename` and `mimeType`, in characters (docs/openapi.yaml).
const MAX_FILE_NAME_CHARS: usize = 255;

/// The text before the content in the frame. Params are JSON in a JSON string.
const CONTENT_START: &str = r#"\"content\":\""#;

/// The fields of an upload. `content` is always an empty string: the content stays outside of wasm memory.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UploadFields {
    pub filename: String,
    pub content: String,
    pub mime_type: String,
}

/// The limit on the size of a file, and what a user can do about a larger file.
#[derive(Debug, Clone, Copy)]
pub struct FileLimit {
    bytes: u64,
    remedy: &'static str,
}

impl FileLimit {
    pub fn new(bytes: u64) -> Self {
        Self { bytes, remedy: "Send a smaller file." }
    }

    /// Returns the limit for a CLI that does not accept uploads in chunks.
    pub fn for_one_frame(self) -> Self {
        if self.bytes <= MAX_FRAME_FILE_BYTES {
            return self;
        }
        let remedy = "Send a smaller file, or update the session's CLI: it does not accept uploads in chunks.";
        Self { bytes: MAX_FRAME_FILE_BYTES, remedy }
    }
}

/// Reads up to `buffer_chars` characters of the content. Returns the fields if the body has been read to its end, and `None` otherwise.
pub async fn read_upload(
    body: &dyn UploadBody,
    buffer_chars: u64,
    limit: FileLimit,
) -> Result<Option<UploadFields>, Error> {
    let fields = body.read(buffer_chars, limit.bytes).await.map_err(|fault| fault_to_error(fault, limit))?;
    fields.map(|fields| UploadFields::parse(&fields)).transpose()
}

/// Sends a call with the buffered content in place of the empty string of the field `content`.
pub fn send_with_content(body: &dyn UploadBody, call: &Call, params: &str) {
    // The whole frame is ASCII, because JavaScript stores ASCII text in one byte a character, and other text in two.
    let frame = escape_non_ascii(&call.frame(params));
    // The last match is the content: the method's name comes before it, and quotes in a file name are escaped once more.
    let split = frame.rfind(CONTENT_START).map_or(frame.len(), |at| at + CONTENT_START.len());
    let (prefix, suffix) = frame.split_at(split);
    body.send(call.conn, prefix, suffix);
}

impl UploadFields {
    fn parse(fields: &str) -> Result<Self, Error> {
        let upload: Self = read_object(fields).map_err(Error::from_body)?;
        check_length("filename", &upload.filename, 1..=MAX_FILE_NAME_CHARS)?;
        // A browser reports an empty type for a file that it does not know.
        check_length("mimeType", &upload.mime_type, 0..=MAX_FILE_NAME_CHARS)?;
        Ok(upload)
    }
}

fn escape_non_ascii(text: &str) -> String {
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

pub fn check_length(field: &str, text: &str, chars: RangeInclusive<usize>) -> Result<(), Error> {
    if chars.contains(&text.chars().count()) {
        return Ok(());
    }
    let (min, max) = chars.into_inner();
    Err(Error::field(field, format!("Field `{field}` must have {min} to {max} characters.")))
}

pub fn to_upload_error(error: RpcError) -> Error {
    Error::UploadFailed(error.to_string())
}

pub fn fault_to_error(fault: UploadFault, limit: FileLimit) -> Error {
    match fault {
        UploadFault::TooLarge => Error::TooLarge {
            what: "The file in field `content`".into(),
            limit: usize::try_from(limit.bytes).unwrap_or(usize::MAX),
            remedy: limit.remedy,
        },
        UploadFault::FieldsTooLarge => Error::TooLarge {
            what: "The request body without field `content`".into(),
            limit: MAX_UPLOAD_FIELDS_BYTES,
            remedy: "Shorten its other fields.",
        },
        UploadFault::BadBase64 => Error::field(
            "content",
            "Field `content` must be base64 (RFC 4648), of either alphabet, with all of its padding or none.",
        ),
        UploadFault::NotUtf8 => Error::InvalidBody("It is not valid UTF-8. Encode it as UTF-8.".into()),
        UploadFault::Broken => Error::InvalidBody("It ended early. Send it again.".into()),
        UploadFault::Stalled => Error::UploadStalled,
    }
}
