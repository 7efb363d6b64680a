//! What people set on a session.

use serde::{Serialize, Serializer};

/// Calls a macro with the settings of a session, which are columns of `sessions`, and in exports, events and summaries.
macro_rules! settings {
    ($macro:ident) => {
        $macro! {
            /// Whether users keep the session at the top of the list.
            pinned: bool,
            /// Whether the session sends no notifications.
            muted: bool,
            /// The colour of the session in lists: a name or `#rrggbb`. The hub accepts any text, and clients show no other one.
            color: Option<String>
        }
    };
}
pub(crate) use settings;

macro_rules! define_settings {
    ($($(#[$meta:meta])* $name:ident: $type:ty),*) => {
        /// What people set on a session. Serialized as in a row of `sessions`.
        #[derive(Debug, Clone, Default, PartialEq, Serialize)]
        pub struct Settings {
            $($(#[$meta])* pub $name: $type),*
        }

        /// The settings that were changed. Null is a setting that was cleared.
        #[derive(Debug, Default, Clone, Copy, Serialize)]
        #[serde(rename_all = "camelCase")]
        pub struct ChangedSettings<'a> {
            $(#[serde(skip_serializing_if = "Option::is_none")] $name: Option<&'a $type>),*
        }

        impl ChangedSettings<'_> {
            pub fn is_empty(&self) -> bool {
                $(self.$name.is_none())&&*
            }
        }

        impl Settings {
            pub fn changed_since(&self, before: &Self) -> ChangedSettings<'_> {
                ChangedSettings { $($name: (self.$name != before.$name).then_some(&self.$name)),* }
            }

            /// Returns these settings. Takes a setting that is not set here from `old`.
            pub fn or(&self, old: &Self) -> Self {
                let unset = Self::default();
                Self { $($name: if self.$name == unset.$name { &old.$name } else { &self.$name }.clone()),* }
            }
        }
    };
}
settings!(define_settings);

/// Serializes only what is set, as clients get it.
pub fn serialize_set<S: Serializer>(settings: &Settings, serializer: S) -> Result<S::Ok, S::Error> {
    settings.changed_since(&Settings::default()).serialize(serializer)
}
