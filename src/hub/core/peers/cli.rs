//! A connected CLI: the sessions and machines that its socket serves, and the RPC methods that it registered.

use serde::{Deserialize, Serialize, Serializer};

use crate::model::owner::Owner;
use crate::model::vocabulary::Vocabulary;

/// A session or machine that a CLI serves without having named it in CONNECT. An array in the attachment, to save space.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ServedOwner {
    pub owner: Owner,
    /// The methods that the CLI registered under the id of `owner`, without the id.
    pub methods: Vec<String>,
    /// The last activity on the socket for `owner`, in Unix milliseconds. `None` after the CLI has ended the session.
    #[serde(default)]
    pub alive_at: Option<u64>,
}

impl Serialize for ServedOwner {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.alive_at {
            Some(alive_at) => (&self.owner, &self.methods, alive_at).serialize(serializer),
            None => (&self.owner, &self.methods).serialize(serializer),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cli {
    /// The session that the CLI named in CONNECT, if it belongs to the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The machine that the CLI named in CONNECT, if it belongs to the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The registered RPC methods of `session` and `machine`, by the names that the CLI used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// The sessions and machines that the CLI serves without having named them in CONNECT.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<ServedOwner>,
    /// The last activity on the socket for `session`, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_alive_at: Option<u64>,
    /// The last activity on the socket for `machine`, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_alive_at: Option<u64>,
    /// When the first ping since the last received frame was sent, in Unix milliseconds.
    #[serde(rename = "pingedAt", skip_serializing_if = "Option::is_none")]
    pub unanswered_since: Option<u64>,
    #[serde(rename = "uploadChunks", skip_serializing_if = "std::ops::Not::not")]
    pub accepts_upload_chunks: bool,
    /// The installation that the CLI named in CONNECT.
    #[serde(rename = "inst", skip_serializing_if = "Option::is_none")]
    pub installation: Option<String>,
    /// The id of the device whose token the CLI used.
    #[serde(rename = "by", skip_serializing_if = "Option::is_none")]
    pub token_device: Option<String>,
}

impl Cli {
    /// Returns the time of the last activity for a session or machine that the CLI serves, in Unix milliseconds.
    pub fn last_activity_at(&self, owner: &Owner) -> Option<u64> {
        match owner {
            _ if !self.is_named_in_connect(owner) => self.others.iter().find(|other| other.owner == *owner)?.alive_at,
            Owner::Session(_) => self.session_alive_at,
            Owner::Machine(_) => self.machine_alive_at,
        }
    }

    /// Sets the last activity of the CLI for a session or machine, in Unix milliseconds; `None` after it has ended the session.
    pub fn set_last_activity(&mut self, owner: &Owner, at: Option<u64>) {
        match owner {
            _ if !self.is_named_in_connect(owner) => {
                self.others.iter_mut().filter(|other| other.owner == *owner).for_each(|other| other.alive_at = at);
            }
            Owner::Session(_) => self.session_alive_at = at,
            Owner::Machine(_) => self.machine_alive_at = at,
        }
    }

    fn is_named_in_connect(&self, owner: &Owner) -> bool {
        match owner {
            Owner::Session(id) => self.session.as_ref() == Some(id),
            Owner::Machine(id) => self.machine.as_ref() == Some(id),
        }
    }

    /// Returns the sessions and machines that the CLI serves: those named in CONNECT, and `others`.
    pub fn served(&self) -> impl Iterator<Item = Owner> {
        let named = [self.session.clone().map(Owner::Session), self.machine.clone().map(Owner::Machine)];
        named.into_iter().flatten().chain(self.others.iter().map(|other| other.owner.clone()))
    }

    pub fn ids_and_method_names(&self) -> impl Iterator<Item = &str> {
        let named = self.session.iter().chain(&self.machine).chain(&self.installation).chain(&self.methods);
        let ids_of_others = self.others.iter().map(|other| other.owner.id());
        let methods_of_others = self.others.iter().flat_map(|other| &other.methods);
        named.chain(methods_of_others).map(String::as_str).chain(ids_of_others)
    }

    /// Resolves a method name that a CLI used: returns the owner of the method, and the hub's name for the method. The CLI's name may
    /// begin with the id of a session or machine that the CLI serves, and a colon. `None` for any other prefix.
    pub fn resolve_method<'n>(&self, name: &'n str, vocabulary: &'n Vocabulary) -> Option<(Owner, &'n str)> {
        let (owner, method) = self.split_prefix(name)?;
        Some((owner, vocabulary.method(method)))
    }

    /// Returns every registered method: its owner, the hub's name for it, and the name that the CLI used.
    pub fn registrations(&self, vocabulary: &Vocabulary) -> Vec<(Owner, String, String)> {
        let of_others = self.others.iter().flat_map(|ServedOwner { owner, methods, .. }| {
            methods
                .iter()
                .map(|method| (owner.clone(), vocabulary.method(method).to_owned(), format!("{}:{method}", owner.id())))
        });
        let of_named = self.methods.iter().filter_map(|name| {
            let (owner, method) = self.resolve_method(name, vocabulary)?;
            Some((owner, method.to_owned(), name.clone()))
        });
        of_named.chain(of_others).collect()
    }

    /// Adds a session or machine that the CLI did not name in CONNECT.
    pub fn add_other(&mut self, owner: Owner) {
        if !self.served().any(|served| served == owner) {
            self.others.push(ServedOwner { owner, methods: Vec::new(), alive_at: None });
        }
    }

    /// Records that the CLI has ended a session. The CLI no longer serves the session, unless the CLI named the session in
    /// CONNECT or has registered methods of the session.
    pub fn record_session_end(&mut self, session: &Owner) {
        self.others.retain(|other| other.owner != *session || !other.methods.is_empty());
        self.set_last_activity(session, None);
    }

    /// Adds a method of a session or machine that the CLI serves, in place of other names of the same method.
    pub fn add_method(&mut self, name: &str, vocabulary: &Vocabulary) {
        self.remove_method(name, vocabulary);
        let Some((owner, method)) = self.split_prefix(name) else { return };
        match self.others.iter_mut().find(|other| other.owner == owner) {
            Some(other) => other.methods.push(method.to_owned()),
            None => self.methods.push(name.to_owned()),
        }
    }

    /// Removes a method, under whichever of its names it was registered.
    pub fn remove_method(&mut self, name: &str, vocabulary: &Vocabulary) {
        let Some((owner, removed)) = self.resolve_method(name, vocabulary) else { return };
        let mut methods = std::mem::take(&mut self.methods);
        methods.retain(|known| self.resolve_method(known, vocabulary) != Some((owner.clone(), removed)));
        self.methods = methods;
        if let Some(other) = self.others.iter_mut().find(|other| other.owner == owner) {
            other.methods.retain(|known| vocabulary.method(known) != removed);
        }
    }

    fn split_prefix<'n>(&self, name: &'n str) -> Option<(Owner, &'n str)> {
        let by_prefix = self.served().filter_map(|owner| {
            let method = name.strip_prefix(owner.id())?.strip_prefix(':')?;
            Some((owner, method))
        });
        // An id may contain a colon, so several ids may match. The longest id wins.
        if let Some(longest) = by_prefix.min_by_key(|(_, method)| method.len()) {
            return Some(longest);
        }
        if name.contains(':') {
            return None;
        }
        let session = self.session.clone().map(Owner::Session);
        session.or_else(|| self.machine.clone().map(Owner::Machine)).map(|owner| (owner, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_may_belong_to_another_session_or_machine_that_the_cli_serves() {
        let none = Vocabulary::default();
        let mut cli = Cli { session: Some("s".into()), ..Cli::default() };
        let others = [Owner::Session("t".into()), Owner::Machine("m".into()), Owner::Machine("m:1".into())];
        others.iter().for_each(|owner| cli.add_other(owner.clone()));
        cli.add_other(Owner::Session("s".into()));
        assert_eq!(cli.others.len(), 3, "the CLI named `s` in CONNECT");
        for name in ["s:read", "t:read", "m:read", "m:1:read", "t:write"] {
            cli.add_method(name, &none);
        }
        cli.add_method("t:read", &none);
        cli.remove_method("t:write", &none);
        let names: Vec<String> = cli.registrations(&none).into_iter().map(|(_, _, name)| name).collect();
        assert_eq!(names, ["s:read", "t:read", "m:read", "m:1:read"]);
        assert_eq!(cli.resolve_method("m:1:read", &none), Some((Owner::Machine("m:1".into()), "read")));
        cli.record_session_end(&others[0]);
        assert_eq!(cli.others.len(), 3, "the CLI still has a method of `t`");
        cli.remove_method("t:read", &none);
        cli.record_session_end(&others[0]);
        assert_eq!(cli.resolve_method("t:read", &none), None);
    }
}
