//! The RPC methods that the hub calls on a CLI. A CLI may register others, which the hub never calls.
//!
//! Source: the specification's "RPC methods", and for the control of a session PROTOCOL.md.

use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use super::keyword::UnknownKeyword;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "camelCase", parse_err_ty = UnknownKeyword, parse_err_fn = unknown_method)]
pub enum Method {
    UploadFile,
    DeleteUploadFile,
    CheckPathExists,
    GitStatus,
    GitDiffNumstat,
    GitDiffFile,
    ReadFile,
    /// Searches file names.
    RunRipgrep,
    ListDirectory,
    SpawnSession,
    ListSlashCommands,
    ListSkills,
    /// Delivers the answer to a permission request.
    Permission,
    /// Stops the current task of the agent.
    Abort,
    /// Switches the control from the terminal to the web.
    Switch,
    KillSession,
    /// Sets the permission mode or the model.
    #[strum(serialize = "set-session-config")]
    SetSessionConfig,
}

impl Method {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

fn unknown_method(_: &str) -> UnknownKeyword {
    UnknownKeyword::of::<Method>("method")
}
