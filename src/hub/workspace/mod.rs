//! Git, files and commands of a session's working directory: calls to the session's CLI, whose results are returned unchanged.

pub mod uploads;

use serde::Deserialize;

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::model::json::Json;
use crate::model::method::Method;
use crate::model::owner::Owner;
use crate::wire::field_types::scalar;

pub struct Workspace {
    pub session: Owner,
    /// The absolute path, empty if the session's metadata has none.
    pub path: String,
    pub agent: Option<String>,
}

#[derive(Deserialize)]
struct RipgrepResult {
    #[serde(deserialize_with = "scalar")]
    success: bool,
    stdout: Option<String>,
}

impl Hub {
    /// Loads the session, and returns what the calls about its directory need.
    pub async fn load_workspace(&self, id: &str) -> Result<Workspace, Error> {
        self.load_session(id).await?;
        let turn = self.turn();
        let metadata = turn.cache.require_entry(id)?.session.metadata_fields();
        let path = metadata.path().unwrap_or_default();
        Ok(Workspace { session: Owner::Session(id.to_owned()), path, agent: metadata.flavor() })
    }

    /// `GET .../files`: the files whose names match the query, a glob or a part of the name, found with ripgrep.
    pub async fn find_files(&self, w: &Workspace, query: &str, limit: usize) -> String {
        let args = match query {
            "" => Json::of(&["--files"]),
            glob if glob.contains(['*', '?', '[', ']', '{', '}']) => Json::of(&["--files", "--iglob", glob]),
            text => Json::of(&["--files", "--iglob", &format!("*{text}*")]),
        };
        let params = Json::object(&[("args", args), ("cwd", Json::of(&w.path))]);
        let result = self.call_or_failure(&w.session, Method::RunRipgrep, &params).await;
        match serde_json::from_str(&result).ok() {
            Some(RipgrepResult { success: true, stdout }) => {
                let paths = stdout.iter().flat_map(|stdout| stdout.lines()).filter(|line| !line.is_empty());
                let files: Vec<Json> = paths.take(limit).map(|path| file_entry(&w.path, path)).collect();
                let list = Json::object(&[("success", Json::of(&true)), ("files", Json::of(&files))]);
                list.text().to_owned()
            }
            _ => result,
        }
    }
}

fn file_entry(cwd: &str, path: &str) -> Json {
    let path = path.strip_prefix("./").unwrap_or(path);
    Json::object(&[
        ("fileName", Json::of(path.rsplit(['/', '\\']).next().unwrap_or(path))),
        ("filePath", Json::of(path)),
        ("fullPath", Json::of(&format!("{}/{path}", cwd.trim_end_matches('/')))),
        ("fileType", Json::of("file")),
    ])
}

/// Checks that a path is relative and has no `..` segment. Both `/` and `\` are separators, because a CLI may run on Windows.
pub fn check_path(field: &'static str, path: &str) -> Result<(), Error> {
    let has_drive = matches!(path.as_bytes(), [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic());
    let reason = if path.contains('\0') {
        "it contains a NUL character"
    } else if has_drive || path.starts_with(['/', '\\']) {
        "it is absolute"
    } else if path.split(['/', '\\']).any(|segment| segment == "..") {
        "it has a `..` segment"
    } else {
        return Ok(());
    };
    Err(Error::InvalidPath { field, reason })
}
