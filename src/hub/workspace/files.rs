//! The working directory of a session, seen through its CLI: git, files, commands. The hub only passes on; what the CLI
//! answers goes back as it came.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::hub::Hub;
use crate::hub::error::Error;
use crate::hub::peers::rpc::RpcResult;
use crate::model::method::Method;
use crate::model::owner::Owner;
use crate::wire::field_types::scalar;

/// A session as the calls about its directory need it.
#[derive(Debug, Clone, Default)]
pub struct Workspace {
    /// The id of the session.
    pub session: String,
    /// The session's working directory.
    pub path: String,
    /// The agent kind.
    pub flavor: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GitParams<'a> {
    cwd: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    staged: Option<bool>,
}

#[derive(Serialize)]
struct PathParams<'a> {
    path: &'a str,
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
    /// What calls about a session's directory need; the session must be in memory.
    pub async fn workspace(self: &Arc<Self>, id: &str) -> Result<Workspace, Error> {
        self.load_session(id).await?;
        let state = self.state();
        let entry = state.cache.session(id)?;
        let facts = entry.session.metadata_fields();
        let path = facts.path().unwrap_or_default();
        Ok(Workspace { session: id.to_owned(), path, flavor: facts.flavor() })
    }

    /// `GET .../git-status`.
    pub async fn git_status(&self, w: &Workspace) -> String {
        self.pass(w, Method::GitStatus, &GitParams { cwd: &w.path, file_path: None, staged: None }).await
    }

    /// `GET .../git-diff-numstat`.
    pub async fn git_diff_numstat(&self, w: &Workspace, staged: bool) -> String {
        self.pass(w, Method::GitDiffNumstat, &GitParams { cwd: &w.path, file_path: None, staged: Some(staged) }).await
    }

    /// `GET .../git-diff-file`.
    pub async fn git_diff_file(&self, w: &Workspace, path: &str, staged: bool) -> String {
        self.pass(w, Method::GitDiffFile, &GitParams { cwd: &w.path, file_path: Some(path), staged: Some(staged) })
            .await
    }

    /// `GET .../file`.
    pub async fn read_file(&self, w: &Workspace, path: &str) -> String {
        self.pass(w, Method::ReadFile, &PathParams { path }).await
    }

    /// `GET .../directory`.
    pub async fn list_directory(&self, w: &Workspace, path: &str) -> String {
        self.pass(w, Method::ListDirectory, &PathParams { path }).await
    }

    /// `GET .../slash-commands`.
    pub async fn slash_commands(&self, w: &Workspace) -> String {
        let agent = w.flavor.as_deref().unwrap_or(self.config.vocabulary.default_agent());
        self.pass(w, Method::ListSlashCommands, &AgentParams { agent }).await
    }

    /// `GET .../skills`.
    pub async fn skills(&self, w: &Workspace) -> String {
        or_failure(self.call_session(w, Method::ListSkills, "{}").await)
    }

    /// `GET .../files`: file names that match the query, found with ripgrep.
    pub async fn find_files(&self, w: &Workspace, query: &str, limit: usize) -> String {
        let glob = file_glob(query);
        let args: Vec<&str> = match &glob {
            Some(glob) => vec!["--files", "--iglob", glob],
            None => vec!["--files"],
        };
        let params = to_text(&RipgrepParams { args: &args, cwd: &w.path });
        let answer = self.call_session(w, Method::RunRipgrep, &params).await;
        let result = answer.as_ref().ok().and_then(|text| serde_json::from_str::<RipgrepResult>(text).ok());
        match result {
            Some(RipgrepResult { success: true, stdout }) => {
                let files = stdout.iter().flat_map(|out| out.lines()).filter(|line| !line.is_empty());
                let files = files.take(limit).map(|line| file_entry(&w.path, line)).collect();
                to_text(&FileList { success: true, files })
            }
            _ => or_failure(answer),
        }
    }

    async fn pass<T: Serialize>(&self, w: &Workspace, method: Method, params: &T) -> String {
        or_failure(self.call_session(w, method, &to_text(params)).await)
    }

    async fn call_session(&self, w: &Workspace, method: Method, params: &str) -> RpcResult {
        self.call(&Owner::Session(w.session.clone()), method, params).await
    }
}

/// The pattern for a query: anywhere in the name, or as it is when it is a pattern already; none for an empty query.
fn file_glob(query: &str) -> Option<String> {
    match query {
        "" => None,
        pattern if pattern.contains(['*', '?', '[', ']', '{', '}']) => Some(pattern.to_owned()),
        part => Some(format!("*{part}*")),
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

/// A call that brought nothing is a result too: `{success: false, error}`.
fn or_failure(answer: RpcResult) -> String {
    #[derive(Serialize)]
    struct Failure {
        success: bool,
        error: String,
    }
    answer.unwrap_or_else(|error| to_text(&Failure { success: false, error: error.to_string() }))
}

fn to_text<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Checks a path of a query: relative, and not out of the session's directory. Both kinds of slash separate.
pub fn check_path(field: &'static str, path: &str) -> Result<(), Error> {
    let refuse = |reason| Err(Error::InvalidPath { field, reason });
    if path.contains('\0') {
        return refuse("it contains a NUL character");
    }
    let drive = matches!(path.as_bytes(), [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic());
    if drive || path.starts_with(['/', '\\']) {
        return refuse("it is absolute");
    }
    if path.split(['/', '\\']).any(|segment| segment == "..") {
        return refuse("it leads out of the directory");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_inside_the_directory() {
        for good in ["a", "a/b.txt", "", "./a", "a..b/..c", "ü/日本", "%2e%2e/x", "1:notes", "c:x"] {
            assert!(check_path("path", good).is_ok(), "{good}");
        }
        for bad in ["/etc/passwd", "..", "../x", "a/../../b", "a/..", "a\0b", "\\x", "a\\..\\b", "C:\\x"] {
            assert!(check_path("path", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_query_matches_anywhere_in_the_name_unless_it_is_a_pattern_itself() {
        assert_eq!(file_glob(""), None);
        assert_eq!(file_glob("main").as_deref(), Some("*main*"));
        assert_eq!(file_glob("*.rs").as_deref(), Some("*.rs"));
        assert_eq!(file_glob("!secret").as_deref(), Some("*!secret*"));
    }

    #[test]
    fn a_file_entry_names_its_place_in_three_ways() {
        let entry = file_entry("/code/", "./src/main.rs");
        assert_eq!(
            (entry.file_name.as_str(), entry.file_path.as_str(), entry.full_path.as_str()),
            ("main.rs", "src/main.rs", "/code/src/main.rs")
        );
    }
}
