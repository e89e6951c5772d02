//! Of which moment an answer is: a tree size, its root, and whether the log's key has signed for it.

use super::reading::Reading;
use fleet_config::domain::Sha256;
use fleet_config::refusal::Refusal;
use serde::Serialize;

/// What an answer is about. The same question about the same tree has the same answer.
#[derive(Debug, Clone, Serialize)]
pub(super) struct AsOf {
    pub origin: String,
    pub tree_size: u64,
    pub root: Sha256,
    /// Size of the checkpoint that the root was shown to be consistent with; none where it covers less.
    pub checkpoint_size: Option<u64>,
}

impl AsOf {
    /// The moment that was asked for, else that of all entries.
    pub(super) fn of(reading: &Reading, asked: Option<u64>) -> Result<Self, Refusal> {
        let size = reading.log.size();
        let tree_size = asked.unwrap_or(size);
        if tree_size > size {
            return Err(Refusal::new(
                "ledger/as-of",
                tree_size.to_string(),
                format!("the ledger has {size} entries"),
                "give a size that the ledger has had",
            ));
        }
        let root = reading.log.head_at(tree_size).map_err(|error| reading.unreadable(&error))?;
        let checkpoint = reading.log.checkpoint();
        let covered = (tree_size <= checkpoint.size).then_some(checkpoint.size);
        Ok(Self { origin: checkpoint.origin.clone(), tree_size, root, checkpoint_size: covered })
    }

    /// The same for people, in one line.
    pub(super) fn line(&self) -> String {
        let signed = match self.checkpoint_size {
            Some(size) => format!("under the signed checkpoint of {size}"),
            None => "committed, and not under a signed checkpoint yet".to_owned(),
        };
        format!("tree of {} entries, root {}, {signed}; log {}", self.tree_size, self.root, self.origin)
    }
}
