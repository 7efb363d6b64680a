//! The RPC methods of the interface. A CLI may register others, too; nobody asks for them.
//!
//! Source: the specification's "RPC methods", and decisions for those that steer a session.

use super::words::words;

words! {
    /// A method of a CLI.
    Method, "method" {
        /// Saves a file for a session.
        UploadFile = "uploadFile",
        /// Deletes such a file.
        DeleteUploadFile = "deleteUploadFile",
        /// Which paths exist on a machine.
        CheckPathExists = "checkPathExists",
        /// The changed files of a session's directory.
        GitStatus = "gitStatus",
        /// How much changed in each file.
        GitDiffNumstat = "gitDiffNumstat",
        /// What changed in one file.
        GitDiffFile = "gitDiffFile",
        /// The bytes of a file.
        ReadFile = "readFile",
        /// A search for file names.
        RunRipgrep = "runRipgrep",
        /// The entries of a folder.
        ListDirectory = "listDirectory",
        /// Starts a session on a machine.
        SpawnSession = "spawnSession",
        /// The slash commands of a session's agent.
        ListSlashCommands = "listSlashCommands",
        /// The skills of a session's agent.
        ListSkills = "listSkills",
        /// The answer to a permission request.
        Permission = "permission",
        /// Stops what the agent does.
        Abort = "abort",
        /// Takes control from the terminal.
        Switch = "switch",
        /// Ends a session's CLI.
        KillSession = "killSession",
        /// Changes permission mode or model.
        SetSessionConfig = "set-session-config",
    }
}
