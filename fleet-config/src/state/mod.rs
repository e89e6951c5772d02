//! State folders of coordinator and nodes: whose they are, private files, keys, writes that a crash cannot tear.
//!
//! What lies in a folder is said by its owner (`coordinator::state`, `agent_node::state`); how it is made, locked,
//! read and written is said here, once.

mod file;
mod folder;
mod key;

pub use file::{at, io, read_bounded, read_private, surroundings, sync_folder, write_new, write_private};
pub use folder::{Age, Format, Lock, check_owner, check_private, lock, make_folder};
pub use key::{CERTIFICATE_MAX, CertificateError, TlsKey, fingerprint_of, signing_key};
