//! Effects: what the hub does once a change is durable, as data. Use cases queue effects with their changes
//! ([`Journal::on_commit`](crate::store::journal::Journal::on_commit)); the group commit runs them when the batch is
//! durable, or fails them when it is not.

use std::borrow::Cow;

use futures::channel::oneshot;

use crate::hub::error::Error;
use crate::hub::peers::frame_text::Text;
use crate::hub::ports::ConnId;
use crate::model::event::Event;
use crate::model::message::Message;
use crate::model::owner::Owner;
use crate::push::payload::Notification;
use crate::store::journal::Weigh;

/// What happens once the changes noted before it are durable, or have failed.
#[derive(Debug)]
pub enum Effect {
    /// A frame for one socket.
    Reply {
        /// The socket.
        conn: ConnId,
        /// The frame once it is durable.
        done: Text,
        /// The frame when it failed.
        failed: String,
    },
    /// An event for web clients; dropped on failure.
    Publish(Event),
    /// A frame for the CLIs of a session or machine, save the one that caused it; dropped on failure.
    Update {
        /// The session or machine.
        owner: Owner,
        /// The socket that caused it.
        except: Option<ConnId>,
        /// The frame.
        frame: Text,
    },
    /// A message, for web clients and the CLIs of its session save the one that sent it; dropped on failure. What they
    /// hear is made only then: till then its text is held once, and an agent's CLI mostly is the only one.
    Message {
        /// The id of its session.
        session: String,
        /// The socket that sent it; `None` when the web did.
        except: Option<ConnId>,
        /// The message.
        message: Message,
        /// The seq of the `update` event.
        number: u64,
    },
    /// A notification for somebody who may be away; dropped on failure.
    Notify(Notification),
    /// The notebook may forget the clock of a session or machine that is not active any more.
    Departed(Owner),
    /// Somebody who waits.
    Waiter(oneshot::Sender<Result<(), Error>>),
}

impl Effect {
    /// Whether web clients are told of it.
    pub fn is_event(&self) -> bool {
        matches!(self, Self::Publish(_) | Self::Message { .. })
    }

    /// What web clients are told.
    pub fn event(&self) -> Option<Cow<'_, Event>> {
        match self {
            Self::Publish(event) => Some(Cow::Borrowed(event)),
            Self::Message { session, message, .. } => Some(Cow::Owned(Event::message_received(session, message))),
            Self::Reply { .. } | Self::Update { .. } | Self::Notify(_) | Self::Departed(_) | Self::Waiter(_) => None,
        }
    }
}

impl Weigh for Effect {
    fn bytes(&self) -> usize {
        match self {
            Self::Reply { done, failed, .. } => done.bytes() + failed.len(),
            Self::Publish(event) => event.body.len(),
            Self::Update { frame, .. } => frame.bytes(),
            Self::Message { message, .. } => message.content.text().len(),
            Self::Notify(Notification { body, superseded, .. }) => {
                body.len() + superseded.iter().map(String::len).sum::<usize>()
            }
            Self::Departed(_) | Self::Waiter(_) => 0,
        }
    }
}
