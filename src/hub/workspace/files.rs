//! Git, files and commands of a session's working directory. The hub forwards the calls to the session's CLI, and returns the
//! CLI's result unchanged.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::model::method::Method;
use crate::model::owner::Owner;
use crate::wire::field_types::scalar;

#[derive(Debug, Clone, Default)]
pub struct Workspace {
    pub session_id: String,
    /// The absolute path, empty if the session's metadata has none.
    pub path: String,
    pub agent: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GitParams<'a> {
    cwd: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    staged: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
}

#[derive(Serialize)]
struct PathParams<'a> {
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
}

#[derive(Serialize)]
struct AgentParams<'a> {
    agent: &'a str,
}

#[derive(Serialize)]
struct RipgrepParams<'a> {
    args: &'a [&'a str],
    cwd: &'a str,
}

#[derive(Deserialize)]
struct RipgrepResult {
    #[serde(deserialize_with = "scalar")]
    success: bool,
    stdout: Option<String>,
}

#[derive(Serialize)]
struct FileList {
    success: bool,
    files: Vec<FileEntry>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileEntry {
    file_name: String,
    file_path: String,
    full_path: String,
    file_type: &'static str,
}

impl Hub {
    /// Loads the session, and returns what the calls about its directory need.
    pub async fn load_workspace(self: &Arc<Self>, id: &str) -> Result<Workspace, Error> {
        self.load_session(id).await?;
        let turn = self.turn();
        let metadata = turn.cache.require_entry(id)?.session.metadata_fields();
        let path = metadata.path().unwrap_or_default();
        Ok(Workspace { session_id: id.to_owned(), path, agent: metadata.flavor() })
    }

    pub async fn git_status(&self, w: &Workspace, path: Option<&str>, offset: Option<u64>) -> String {
        self.forward(w, Method::GitStatus, &GitParams { cwd: &w.path, file_path: path, staged: None, offset }).await
    }

    pub async fn git_diff_numstat(&self, w: &Workspace, staged: bool) -> String {
        self.forward(
            w,
            Method::GitDiffNumstat,
            &GitParams { cwd: &w.path, file_path: None, staged: Some(staged), offset: None },
        )
        .await
    }

    pub async fn git_diff_file(&self, w: &Workspace, path: &str, staged: bool) -> String {
        let params = GitParams { cwd: &w.path, file_path: Some(path), staged: Some(staged), offset: None };
        self.forward(w, Method::GitDiffFile, &params).await
    }

    pub async fn read_file(&self, w: &Workspace, path: &str) -> String {
        self.forward(w, Method::ReadFile, &PathParams { path, offset: None }).await
    }

    pub async fn list_directory(&self, w: &Workspace, path: &str, offset: Option<u64>) -> String {
        self.forward(w, Method::ListDirectory, &PathParams { path, offset }).await
    }

    pub async fn list_slash_commands(&self, w: &Workspace) -> String {
        let agent = w.agent.as_deref().unwrap_or(self.config.vocabulary.default_agent());
        self.forward(w, Method::ListSlashCommands, &AgentParams { agent }).await
    }

    /// Calls a method of the session's CLI. Returns its result, or for a failed call `{"success":false,"error"}`.
    pub async fn call_method(&self, w: &Workspace, method: Method, params: &str) -> String {
        self.call_or_failure(&Owner::Session(w.session_id.clone()), method, params).await
    }

    /// `GET .../files`: the files whose names match the query, found with ripgrep.
    pub async fn find_files(&self, w: &Workspace, query: &str, limit: usize) -> String {
        let glob = file_glob(query);
        let args: Vec<&str> = match &glob {
            Some(glob) => vec!["--files", "--iglob", glob],
            None => vec!["--files"],
        };
        let params = to_text(&RipgrepParams { args: &args, cwd: &w.path });
        let result = self.call_method(w, Method::RunRipgrep, &params).await;
        match serde_json::from_str(&result).ok() {
            Some(RipgrepResult { success: true, stdout }) => {
                let paths = stdout.iter().flat_map(|stdout| stdout.lines()).filter(|line| !line.is_empty());
                let files = paths.take(limit).map(|path| file_entry(&w.path, path)).collect();
                to_text(&FileList { success: true, files })
            }
            _ => result,
        }
    }

    async fn forward<T: Serialize>(&self, w: &Workspace, method: Method, params: &T) -> String {
        self.call_method(w, method, &to_text(params)).await
    }
}

/// Returns the glob of a search: a query that is a glob already, or a glob that matches file names that contain the query.
/// `None` for an empty query, which matches all files.
fn file_glob(query: &str) -> Option<String> {
    match query {
        "" => None,
        glob if glob.contains(['*', '?', '[', ']', '{', '}']) => Some(glob.to_owned()),
        text => Some(format!("*{text}*")),
    }
}

fn file_entry(cwd: &str, path: &str) -> FileEntry {
    let path = path.strip_prefix("./").unwrap_or(path);
    FileEntry {
        file_name: path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned(),
        file_path: path.to_owned(),
        full_path: format!("{}/{path}", cwd.trim_end_matches('/')),
        file_type: "file",
    }
}

fn to_text<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Checks that a path is relative and has no `..` segment. Both `/` and `\` are separators, because a CLI may run on Windows.
pub fn check_path(field: &'static str, path: &str) -> Result<(), Error> {
    let invalid = |reason| Err(Error::InvalidPath { field, reason });
    if path.contains('\0') {
        return invalid("it contains a NUL character");
    }
    if is_absolute(path) {
        return invalid("it is absolute");
    }
    if path.split(['/', '\\']).any(|segment| segment == "..") {
        return invalid("it has a `..` segment");
    }
    Ok(())
}

fn is_absolute(path: &str) -> bool {
    let has_drive = matches!(path.as_bytes(), [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic());
    has_drive || path.starts_with(['/', '\\'])
}
