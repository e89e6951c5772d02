//! Every limit of the QUIC side, each with its reason.

use std::time::Duration;

/// Quiet connections send a sign of life this often: home routers forget a UDP flow after 30 s.
pub const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// A peer silent for this long is gone: three keep-alives lost in a row.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Handshakes that run at once; each costs a signature and some memory before anybody is known.
pub const HANDSHAKES_MAX: usize = 64;

/// From here on an address must prove itself by a retry packet, so that forged packets cost us nothing.
pub const HANDSHAKES_UNPROVEN: usize = 16;

/// A handshake takes one or two round trips.
pub const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Connections past the handshake, admitted or not: far above the largest fleet of one coordinator.
pub const CONNECTIONS_MAX: usize = 4096;

/// A node sends its hello at once.
pub const HELLO_WITHIN: Duration = Duration::from_secs(10);

/// Admission may append an entry to the ledger, which waits for the disk.
pub const ADMISSION_WITHIN: Duration = Duration::from_secs(20);

/// Streams that a node may have open: its control stream, reports and blobs.
pub const STREAMS_MAX: u32 = 64;

/// Reports of one node that are worked on at once; the others wait in their streams' windows.
pub const REPORTS_MAX: usize = 4;

/// Blobs that one node fetches at once.
pub const BLOBS_MAX: usize = 16;

/// Blobs that one report may name: samples and evidence of every case with room to spare.
pub const REPORT_BLOBS_MAX: usize = 256;

/// Bytes of all blobs of one report: logs, samples, an artefact.
pub const REPORT_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Bytes in flight to us on one connection; bounds what an unread connection can hold in memory.
pub const RECEIVE_WINDOW: u32 = 8 * 1024 * 1024;

/// Bytes in flight to us on one stream.
pub const STREAM_WINDOW: u32 = 1024 * 1024;

/// Bytes that one connection may have queued towards its node.
pub const SEND_WINDOW: u64 = 8 * 1024 * 1024;

/// Blob bytes are read, hashed and written in pieces of this size.
pub const CHUNK: usize = 128 * 1024;

/// A stream that is owed bytes and gets none for this long is given up.
pub const STREAM_SILENCE: Duration = Duration::from_secs(30);

/// Illegal frames of one connection before it is closed: a broken node is cut off, one torn stream is forgiven.
pub const BAD_FRAMES_MAX: u64 = 16;

/// Commands that wait for one connection. More than a node can have leases, cancels and checkpoints at once.
pub const COMMANDS_MAX: usize = 1024;

/// Assignments of one connection whose streams are open: one per device and some that are ending.
pub const ASSIGNMENTS_MAX: usize = 512;

/// Answers on one assignment stream: a stage and a few details each.
pub const ANSWERS_MAX: usize = 4096;

/// How long a goodbye may take to be read before the connection is closed under it.
pub const GOODBYE_WITHIN: Duration = Duration::from_secs(3);

/// How long a new connection waits for the session that it replaces to end.
pub const REPLACE_WITHIN: Duration = Duration::from_secs(5);

/// Longest text of a code, cause, stage or detail that is passed on.
pub const TEXT_MAX: usize = 4096;
