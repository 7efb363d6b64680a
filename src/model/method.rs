//! The RPC methods of the interface. A CLI may register others, too; nobody asks for them.
//!
//! Source: the specification's "RPC methods", and decisions for those that steer a session.

use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use super::words::UnknownWord;

/// A method of a CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "camelCase", parse_err_ty = UnknownWord, parse_err_fn = unknown_method)]
pub enum Method {
    /// Saves a file for a session.
    UploadFile,
    /// Deletes such a file.
    DeleteUploadFile,
    /// Which paths exist on a machine.
    CheckPathExists,
    /// The changed files of a session's directory.
    GitStatus,
    /// How much changed in each file.
    GitDiffNumstat,
    /// What changed in one file.
    GitDiffFile,
    /// The bytes of a file.
    ReadFile,
    /// A search for file names.
    RunRipgrep,
    /// The entries of a folder.
    ListDirectory,
    /// Starts a session on a machine.
    SpawnSession,
    /// The slash commands of a session's agent.
    ListSlashCommands,
    /// The skills of a session's agent.
    ListSkills,
    /// The answer to a permission request.
    Permission,
    /// Stops what the agent does.
    Abort,
    /// Takes control from the terminal.
    Switch,
    /// Ends a session's CLI.
    KillSession,
    /// Changes permission mode or model.
    #[strum(serialize = "set-session-config")]
    SetSessionConfig,
}

impl Method {
    /// The word of the interface.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

fn unknown_method(_: &str) -> UnknownWord {
    UnknownWord::of::<Method>("method")
}
