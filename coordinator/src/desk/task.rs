//! Adding and showing tasks.

use super::{Desk, blocking};
use crate::http::body::{SealedBody, TaskBody, TaskView};
use crate::state::{read_private, write_private};
use data_encoding::HEXLOWER;
use fleet_config::config::check_task;
use fleet_config::domain::{Commitment, LeafIndex, Task, TaskId};
use fleet_config::refusal::Refusal;
use ledger::entry::predicate::TaskAdded;

impl Desk {
    /// Adds a task to the ledger, or answers with the entry that it has already.
    pub async fn add_task(&self, body: TaskBody) -> Result<TaskView, Refusal> {
        let task = body.task;
        if let Some(first) = check_task(&task).refusals.into_iter().next() {
            return Err(first);
        }
        let document = task.document().map_err(|error| {
            Refusal::new(
                "task/not-canonical",
                &task.name,
                error.to_string(),
                "write numbers as integers or decimal strings",
            )
        })?;
        let id = TaskId(document.digest().0);
        let _defining = self.defining.lock().await;
        if let Some(entry) = self.catalog.task(id) {
            return Ok(view(id, &task, entry.index, Novelty::Known));
        }
        if let Some((id, index)) = self.same_but_for_the_salt(&task, body.holdout.as_ref()).await? {
            return Ok(view(id, &task, index, Novelty::Known));
        }
        self.check_blobs(&task)?;
        self.seal_holdout(&task, body.holdout).await?;
        self.put_blob(document.bytes.clone().into()).await?;
        let entry = TaskAdded {
            task: id,
            name: task.name.clone(),
            definition: document.blob,
            blobs: task.blobs(),
            added_on: crate::clock::wall_rfc3339(),
        };
        let index = self.commit.add_task(entry).await?;
        self.catalog.add_task(id, task.clone(), index);
        Ok(view(id, &task, index, Novelty::Added))
    }

    /// Every task.
    pub fn tasks(&self) -> Vec<TaskView> {
        let all = self.catalog.tasks();
        all.iter().map(|(id, entry)| view(*id, &entry.value, entry.index, Novelty::Known)).collect()
    }

    /// One task by id, prefix or name.
    pub fn task(&self, text: &str) -> Result<Task, Refusal> {
        Ok((*self.catalog.find_task(text)?.1.value).clone())
    }

    /// The task in the ledger that equals this one in everything, the sealed section included, and was sealed with
    /// another salt: adding a folder twice is adding it once.
    async fn same_but_for_the_salt(
        &self,
        task: &Task,
        sealed: Option<&SealedBody>,
    ) -> Result<Option<(TaskId, LeafIndex)>, Refusal> {
        let (Some(_), Some(sealed)) = (&task.holdout, sealed) else { return Ok(None) };
        for (id, entry) in self.catalog.tasks() {
            let Some(holdout) = &entry.value.holdout else { continue };
            let resealed = Task { holdout: Some(holdout.clone()), ..task.clone() };
            let is_same = task.holdout.as_ref().is_some_and(|own| own.cases == holdout.cases)
                && resealed == *entry.value;
            if !is_same {
                continue;
            }
            let path = self.facts.sealed.join(holdout.commitment.0.to_string());
            let Some(bytes) = blocking(move || read_private(&path)).await?? else { continue };
            let known: Option<SealedBody> = serde_json::from_slice(&bytes).ok();
            if known.is_some_and(|known| known.section == sealed.section) {
                return Ok(Some((id, entry.index)));
            }
        }
        Ok(None)
    }

    fn check_blobs(&self, task: &Task) -> Result<(), Refusal> {
        let missing = task.blobs().into_iter().find(|blob| !self.blobs.contains(&blob.blake3));
        match missing {
            None => Ok(()),
            Some(blob) => Err(Refusal::new(
                "task/missing-blob",
                blob.blake3.to_string(),
                "the task names a blob that was not put",
                "put every source and input file with PUT /v1/blobs first",
            )),
        }
    }

    /// Keeps the sealed section beside the ledger after checking that the task commits to exactly it.
    async fn seal_holdout(&self, task: &Task, sealed: Option<SealedBody>) -> Result<(), Refusal> {
        let (holdout, sealed) = match (&task.holdout, sealed) {
            (None, None) => return Ok(()),
            (Some(holdout), Some(sealed)) => (holdout, sealed),
            (Some(_), None) | (None, Some(_)) => {
                return Err(Refusal::new(
                    "task/holdout",
                    &task.name,
                    "the task's commitment and the sealed section must come together",
                    "add the task with `muster task add`, which seals its holdout",
                ));
            }
        };
        let salt: Option<[u8; 32]> =
            HEXLOWER.decode(sealed.salt.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
        let matches =
            salt.is_some_and(|salt| Commitment::of(&salt, sealed.section.as_bytes()) == holdout.commitment);
        if !matches {
            return Err(Refusal::new(
                "task/holdout",
                &task.name,
                "the sealed section does not open the task's commitment",
                "seal it again: the salt or the section was changed",
            ));
        }
        let path = self.facts.sealed.join(holdout.commitment.0.to_string());
        let text = serde_json::json!({"salt": sealed.salt, "section": sealed.section}).to_string();
        blocking(move || write_private(&path, text.as_bytes()))
            .await?
            .map_err(|error| crate::state::io("sealed", &error))
    }
}

enum Novelty {
    Added,
    Known,
}

fn view(id: TaskId, task: &Task, index: LeafIndex, novelty: Novelty) -> TaskView {
    let added = matches!(novelty, Novelty::Added);
    TaskView { task: id, name: task.name.clone(), summary: task.summary.clone(), index, added }
}
