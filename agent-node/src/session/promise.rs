//! Promises: what the coordinator signed about each result, kept so that an omission can be shown later.
//!
//! `<state>/promises/<first 2 hex>/<record>.json`, one file per record.

use super::machine::AttemptKey;
use super::outbox::Outbox;
use super::pin::Pin;
use super::witness::Log;
use fleet_config::domain::RecordId;
use fleet_config::state;
use fleet_config::wire::v1::{RecordVerdict, Recorded};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What the coordinator said about one report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promise {
    pub cell: String,
    pub fence: u64,
    pub record: RecordId,
    pub verdict: Verdict,
}

/// The verdict in words that outlive the wire version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Accepted {
        index: u64,
        /// The log key's signature over record and index, hex.
        promise: String,
    },
    Refused {
        index: u64,
        reason: String,
    },
    Invalid {
        code: String,
        cause: String,
    },
}

impl Promise {
    /// The promise in an acknowledgement, or `None` for one that settles nothing.
    pub fn of(attempt: AttemptKey, recorded: &Recorded) -> Option<Self> {
        let verdict = match &recorded.verdict {
            RecordVerdict::Accepted { index, promise } => {
                Verdict::Accepted { index: *index, promise: data_encoding::HEXLOWER.encode(promise) }
            }
            RecordVerdict::Refused { index, reason } => {
                Verdict::Refused { index: *index, reason: reason.clone() }
            }
            RecordVerdict::Invalid { code, cause } => {
                Verdict::Invalid { code: code.clone(), cause: cause.clone() }
            }
            RecordVerdict::Later { .. } => return None,
        };
        let (cell, fence) = (attempt.cell.to_string(), attempt.fence.0);
        Some(Self { cell, fence, record: RecordId(recorded.record), verdict })
    }

    /// Writes it durably below `promises`.
    pub fn save(&self, promises: &Path) -> std::io::Result<()> {
        let record = self.record.to_string();
        let shelf = promises.join(&record[..2]);
        state::make_folder(&shelf)?;
        state::sync_folder(promises)?;
        state::write_private(&shelf.join(format!("{record}.json")), &serde_json::to_vec(self)?)
    }
}

/// Checks an acknowledgement, keeps what it promises, and only then lets the result go.
pub(super) fn settle(outbox: &Outbox, promises: &Path, pin: &Pin, attempt: AttemptKey, recorded: &Recorded) {
    let log = Log { origin: &pin.origin, vkey: &pin.log_vkey };
    let envelope = outbox.report(attempt).map(|report| report.envelope).unwrap_or_default();
    if let Err(error) = log.check(recorded, &envelope) {
        tracing::error!(?attempt, %error, "an acknowledgement proves nothing; the result stays in the outbox");
        return;
    }
    let kept = Promise::of(attempt, recorded).map_or(Ok(()), |promise| promise.save(promises));
    let settled = kept.map_err(Into::into).and_then(|()| outbox.remove(attempt));
    if let Err(error) = settled {
        tracing::error!(?attempt, %error, "an acknowledged result stays in the outbox");
    }
}
