//! Every bound of the scheduler with its reason.

use std::time::Duration;

/// Tries at one cell, the first included. Four bridge a node that dies, its neighbour that dies, and one
/// coordinator restart; more would hide a broken fleet.
pub const ATTEMPTS_MAX: u32 = 4;

/// A node that said nothing for so long is lost: three keep-alives of at most 15 s each.
pub const NODE_TIMEOUT: Duration = Duration::from_secs(45);

/// The driver steps at least so often while anything is open, so that a longer gap is known to be its own pause.
pub const TICK_MAX: Duration = Duration::from_secs(5);

/// A gap between steps that only a pause of the coordinator itself explains.
pub const PAUSE_MIN: Duration = Duration::from_secs(15);

/// Added to the compile and run budgets of a lease: transfer, signing and the commit of the result.
pub const LEASE_SLACK: Duration = Duration::from_secs(60);

/// Wait before the first retry of a cell; doubles with each further one. It keeps a node that fails at once
/// from burning all attempts of a queue within a second.
pub const RETRY_BACKOFF: Duration = Duration::from_millis(250);

/// Longest wait before a retry.
pub const RETRY_BACKOFF_MAX: Duration = Duration::from_secs(8);

/// Cells that wait or run at one time: about 100 MB of state.
pub const OPEN_CELLS_MAX: usize = 200_000;

/// Device classes that open cells name at one time: each keeps a pool of matching devices.
pub const CLASSES_MAX: usize = 1_024;

/// Known nodes, lost ones included.
pub const NODES_MAX: usize = 50_000;

/// Devices that one node may offer: twice the largest host that is sold.
pub const DEVICES_PER_NODE_MAX: usize = 64;

/// Attempts that one node may report as held: running and unacknowledged ones of all its devices.
pub const HELD_PER_NODE_MAX: usize = 4_096;

/// Leases granted by one step: bounds the batch that one journal sync and one ledger entry carry.
pub const GRANTS_PER_STEP_MAX: usize = 256;

/// Input seeds of one attempt.
pub const SEEDS_MAX: u32 = 1_024;

/// Finished submissions kept for questions; older ones are answered from the ledger's index.
pub const FINISHED_SUBMISSIONS_KEPT: usize = 1_000;

/// Invites that are not used up. Expired ones count until the next start.
pub const INVITES_MAX: usize = 10_000;

/// Longest name of an invite, in bytes.
pub const INVITE_ID_MAX: usize = 64;

/// Cells for which a refused result is remembered, so that one sent again gets the same answer.
pub const REFUSALS_KEPT: usize = 10_000;

const _: () = assert!(NODE_TIMEOUT.as_secs() >= 3 * 15, "two lost keep-alives are no loss of the node");
const _: () = assert!(PAUSE_MIN.as_secs() >= 3 * TICK_MAX.as_secs(), "a late tick is no pause");
const _: () = assert!(NODE_TIMEOUT.as_secs() > PAUSE_MIN.as_secs(), "a pause is seen before it costs a node");
const _: () = assert!(ATTEMPTS_MAX >= 2, "a fault of the fleet is retried at least once");
