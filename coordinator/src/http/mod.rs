//! The HTTP API on the Unix socket of the state folder: JSON in, JSON out, errors as refusals.
//!
//! | method and path | body | answer |
//! | --- | --- | --- |
//! | GET `/v1/summary` | | totals, origin, verifier key, process |
//! | PUT `/v1/blobs` | bytes | `BlobRef` |
//! | POST `/v1/tasks` | [`body::TaskBody`] | [`body::TaskView`] |
//! | GET `/v1/tasks`, `/v1/tasks/{id}` | | [`body::TaskView`] |
//! | POST `/v1/submissions` | [`body::SubmitBody`] | [`body::Receipt`] |
//! | GET `/v1/submissions` | | the newest submissions, newest first |
//! | GET `/v1/submissions/{id}` | | cells; here and below a unique prefix of an id does too |
//! | GET `/v1/submissions/{id}/events?after=N` | | server-sent events, resumable |
//! | POST `/v1/submissions/{id}/cancel` | | what was cancelled |
//! | POST `/v1/verifications` | [`body::VerifyBody`] | [`body::VerifyView`]: the holdout is opened once more |
//! | POST `/v1/findings` | [`body::FindingBody`] | [`body::FindingView`] |
//! | GET `/v1/nodes` | | nodes with devices |
//! | POST `/v1/nodes/{id}/drain` | [`body::DrainBody`] | what still runs |
//! | POST `/v1/nodes/{id}/revoke` | [`body::RevokeBody`] | [`body::RevokeView`] |
//! | POST `/v1/invites` | [`body::InviteBody`] | the invite text, shown once |
//! | POST `/v1/checkpoint` | | the checkpoint, after integrating all that is committed |
//! | POST `/v1/stop` | | the coordinator stops |

pub mod body;
mod error;
mod events;
mod findings;
mod nodes;
mod serve;
mod submissions;
mod tasks;
mod verifications;

pub use serve::{bind, router, serve};
