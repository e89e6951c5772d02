//! The QUIC side: listening, admission, sessions.
//!
//! ```text
//! listen ──► one task per connection (session)
//!              │  TransportEvent, one bounded channel for all nodes ──► the driver
//!              ◄── NodeCommand, one bounded channel per connection ──── NodeConnection
//! ```
//!
//! Events, in the order in which one connection makes them:
//!
//! | event | when | the driver owes |
//! | --- | --- | --- |
//! | `Joining` | a hello was read; nothing is decided | `Ok(Welcome)` or `Err(Goodbye)` within [`limits::ADMISSION_WITHIN`]; [`admit::admit`] decides, the driver journals and records what it must before it answers |
//! | `Joined` | the welcome is on its way; the connection takes commands | nothing; the `Lost` of an earlier connection of the same node came before |
//! | `Heartbeat`, `Capacity` | the node said so | nothing |
//! | `Answer` | an assignment was taken, declined, went on, or its stream broke | nothing |
//! | `Report` | a report came with all of its blobs, which are in the [`BlobSink`] already | one [`Recorded`](fleet_config::wire::v1::Recorded); a dropped reply becomes `Later` |
//! | `Lost` | the connection is gone; last event of its `ConnectionId`, and only after `Joined` | nothing |
//!
//! Commands: `Assign`, `Cancel`, `Drain`, `Undrain`, `Checkpoint`, `Goodbye` (says goodbye, then closes). A node
//! that does not take its commands is cut off rather than waited for.
//!
//! Blobs never pass through the driver: requests are answered from a [`BlobSource`], bodies of reports go to a
//! [`BlobSink`]; both are implemented over the ledger's blob store. Whoever is admitted may read every blob: one
//! ledger is one trust domain, and sealed cases are never blobs.

pub mod admit;
mod assignment;
mod blob;
mod event;
mod frame;
pub mod limits;
mod listen;
mod registry;
mod report;
mod reset;
mod session;
pub mod tls;

pub use blob::{BlobSink, BlobSource, BlobWriter, NoBlobs};
pub use event::{
    AssignmentEvent, CommandError, ConnectionId, LossCause, NodeCommand, NodeConnection, PeerFacts,
    TransportEvent,
};
pub use listen::{ListenError, Listener, ListenerOptions, Stores};
pub use registry::{CounterValues, Counters};
pub use tls::ServerIdentity;
