//! Registrations of RPC methods. The socket's attachment stores them across hibernation.

use crate::hub::peers::connections::Peer;
use crate::hub::ports::ConnId;
use crate::hub::{Hub, State};
use crate::limits::MAX_ATTACHMENT_BYTES;

/// Returns the size of a text as the platform stores it: one byte a character in Latin-1, else two for each UTF-16 unit
/// (measured).
fn stored_bytes(text: &str) -> usize {
    let is_latin1 = text.chars().all(|character| u32::from(character) <= 0xff);
    if is_latin1 { text.chars().count() } else { 2 * text.encode_utf16().count() }
}

impl Hub {
    /// Registers a method for a socket. The error is a code and a message.
    pub(in crate::hub) fn register(&self, conn: ConnId, name: &str) -> Result<(), (&'static str, &'static str)> {
        const DENIED: (&str, &str) = (
            "access-denied",
            "A method can only be registered under the session or machine that this socket named and owns.",
        );
        let mut state = self.state();
        let Some(cli) = state.connections.cli(conn) else { return Ok(()) };
        let vocabulary = &self.config.vocabulary;
        let (owner, method) =
            cli.resolve_method(name, vocabulary).filter(|(_, method)| !method.is_empty()).ok_or(DENIED)?;
        let mut cli = cli.clone();
        cli.remove_method(name, vocabulary);
        cli.methods.push(name.to_owned());
        let peer = Peer::Cli(cli);
        if serde_json::to_string(&peer).map_or(0, |text| stored_bytes(&text)) > MAX_ATTACHMENT_BYTES {
            return Err(("too-many-methods", "This socket has registered more methods than the hub can hold."));
        }
        let replaced = state.rpc.register(owner, method, name, conn, self.rt.now());
        self.set_peer(&mut state, conn, peer);
        // Otherwise the replaced registration would be restored after hibernation.
        if let Some((other, name)) = replaced {
            self.remove_method(&mut state, other, &name);
        }
        Ok(())
    }

    pub(in crate::hub) fn unregister(&self, conn: ConnId, name: &str) {
        let mut state = self.state();
        if let Some((owner, method)) =
            state.connections.cli(conn).and_then(|cli| cli.resolve_method(name, &self.config.vocabulary))
        {
            state.rpc.unregister(owner, method, conn);
        }
        self.remove_method(&mut state, conn, name);
    }

    fn remove_method(&self, state: &mut State, conn: ConnId, name: &str) {
        let Some(mut cli) = state.connections.cli(conn).cloned() else { return };
        cli.remove_method(name, &self.config.vocabulary);
        self.set_peer(state, conn, Peer::Cli(cli));
    }
}
