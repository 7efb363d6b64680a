/// The session or machine that a connection or an RPC method belongs to. Two owners may register methods of the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    Session(String),
    Machine(String),
}
