//! The RPC methods that the hub calls on a CLI. A CLI may register other methods, which the hub never calls.
//!
//! Source: PROTOCOL-CLI.md "RPC".

use strum::{Display, IntoStaticStr, VariantNames};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "camelCase", const_into_str)]
pub enum Method {
    UploadFile,
    /// Sends a part of a file to a CLI that accepts uploads in chunks.
    UploadChunk,
    DeleteUploadFile,
    CheckPathExists,
    GitStatus,
    GitDiffNumstat,
    GitDiffFile,
    ReadFile,
    /// Runs ripgrep, which the hub uses only to find files by name (`--files`).
    RunRipgrep,
    ListDirectory,
    SpawnSession,
    /// Starts a session with the history of another session up to a message.
    ForkSession,
    /// Lists the sessions that an agent on the machine knows.
    ListAgentSessions,
    /// Stores an agent's session in the hub.
    ImportAgentSession,
    ListBranches,
    ListSlashCommands,
    ListSkills,
    /// Delivers the answer to a permission request.
    Permission,
    /// Withdraws a rule by which the CLI approves permission requests itself.
    RevokeSessionRule,
    /// Reads a part of a permission request that the agent state contains only in shortened form.
    ReadPermissionRequest,
    /// Stops the current task of the agent.
    Abort,
    /// Moves the control of the session from the terminal to the web.
    Switch,
    KillSession,
    /// Sets the permission mode or the model.
    #[strum(serialize = "set-session-config")]
    SetSessionConfig,
    /// Sets another option of the agent, such as its effort.
    #[strum(serialize = "set-session-option")]
    SetSessionOption,
    /// Edits, cancels, moves or runs messages that wait until the agent is free.
    Queue,
}

impl Method {
    /// Whether the hub changes the session after a successful call.
    pub fn is_followed_by_session_change(self) -> bool {
        matches!(self, Self::Permission | Self::Abort | Self::Switch | Self::KillSession | Self::SetSessionConfig)
    }
}
