//! The settings of a hub.

use std::sync::Arc;

use crate::auth::jwt::JwtKey;
use crate::auth::token::TokenVerifier;
use crate::hub::core::namespace::quotas::Quotas;
use crate::hub::core::namespace::recent_writers::RecentWriters;
use crate::hub::core::uploads::FrameUploadSlot;
use crate::model::mode::PermissionMode;
use crate::model::namespace::Namespace;
use crate::model::vocabulary::Vocabulary;
use crate::push::vapid::VapidKeys;

/// The largest valid `MAX_UPLOAD_MB`, more than the platform accepts in the body of a request.
pub const MAX_UPLOAD_MB: u64 = 1_000;

/// The default of `MAX_UPLOAD_MB`: the largest uploaded file, in MiB (PROTOCOL.md "Limits").
pub const DEFAULT_UPLOAD_MB: u64 = 50;

/// The default of `PUSH_MAX_SUBSCRIPTIONS`: on its smallest plan, the platform limits an event to 50 outgoing requests.
pub const DEFAULT_PUSH_SUBSCRIPTIONS: u64 = 50;
/// The largest valid `PUSH_MAX_SUBSCRIPTIONS`: with more, a queued notification would not fit a value of the key-value storage.
pub const MAX_PUSH_SUBSCRIPTIONS: u64 = 1_000;

pub struct Config {
    pub namespace: Namespace,
    pub tokens: TokenVerifier,
    /// The configured key of the JWTs; `None` if the hub generates the secret and stores it in the database.
    pub jwt: Option<JwtKey>,
    /// How long a CLI may take to answer an RPC, in milliseconds.
    pub rpc_timeout_ms: u64,
    pub vocabulary: Vocabulary,
    pub forbidden_modes: ForbiddenModes,
    pub push: PushConfig,
    pub uploads: UploadConfig,
    pub quotas: Quotas,
    /// Shared by the hubs of an isolate.
    pub recent_writers: Arc<RecentWriters>,
}

/// How the deployment accepts uploads.
#[derive(Debug, Clone)]
pub struct UploadConfig {
    /// The largest file, in bytes.
    pub max_file_bytes: u64,
    /// Shared by the hubs of an isolate.
    pub frame_upload_slot: Arc<FrameUploadSlot>,
}

impl Default for UploadConfig {
    fn default() -> Self {
        Self { max_file_bytes: DEFAULT_UPLOAD_MB << 20, frame_upload_slot: Arc::default() }
    }
}

/// How the deployment sends push messages.
#[derive(Debug, Clone)]
pub struct PushConfig {
    /// The VAPID key pair (RFC 8292). If `None`, the hub generates a pair and stores it in the database.
    pub keys: Option<VapidKeys>,
    /// The VAPID claim `sub`: a `mailto:` or `https:` contact; by default the URL at which the client reached the hub.
    pub subject: Option<String>,
    /// Whether endpoints on the local machine are allowed, also over `http`: for development.
    pub allows_insecure_endpoints: bool,
    /// The limit per namespace. A new subscription beyond the limit replaces the oldest one.
    pub max_subscriptions: u64,
}

impl Default for PushConfig {
    fn default() -> Self {
        Self {
            keys: None,
            subject: None,
            allows_insecure_endpoints: false,
            max_subscriptions: DEFAULT_PUSH_SUBSCRIPTIONS,
        }
    }
}

/// The permission modes that web clients must not select, separated by commas. An agent's own modes may have any names.
#[derive(Debug, Clone, Default)]
pub struct ForbiddenModes(pub String);

impl ForbiddenModes {
    /// Parses `FORBID_MODES`. Checks the characters, but not whether the modes exist.
    pub fn parse(text: String) -> Result<Self, String> {
        match text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b",-_.:/#".contains(&byte)) {
            true => Ok(Self(text)),
            false => Err(format!("FORBID_MODES must be names separated by commas, without spaces, but is `{text}`.")),
        }
    }

    pub fn contains(&self, mode: &str) -> bool {
        !mode.is_empty() && self.0.split(',').any(|forbidden| forbidden == mode)
    }

    pub fn forbids_approving_everything(&self) -> bool {
        PermissionMode::NEVER_ASKING.iter().any(|mode| self.contains(mode.into_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_modes_are_names_separated_by_commas() {
        let parse = |text: &str| ForbiddenModes::parse(text.to_owned());
        let modes = parse("bypassPermissions,https://a.b/c#d").unwrap();
        assert!(modes.contains("bypassPermissions") && modes.contains("https://a.b/c#d"));
        assert!(!modes.contains("bypass") && !modes.contains("https") && !parse("").unwrap().contains(""));
        for invalid in ["yolo bypassPermissions", "yolo, plan", "[\"yolo\"]", "'yolo'"] {
            assert!(parse(invalid).unwrap_err().contains("FORBID_MODES"), "{invalid}");
        }
    }
}
