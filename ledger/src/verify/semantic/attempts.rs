//! Every cell ends exactly once, and every result belongs to an attempt that was logged before it.

use super::Notes;
use crate::entry::predicate::{AttemptLost, Consequence, Grant, ResultRecord};
use crate::entry::{Expected, Signers, check_result_binding};
use fleet_config::domain::{CellId, Fence};
use std::collections::BTreeMap;

/// What the entries so far say about cells.
#[derive(Default)]
pub(super) struct Attempts {
    cells: BTreeMap<CellId, Cell>,
}

#[derive(Default)]
struct Cell {
    /// Attempts that have neither result nor loss; dropped once the cell is closed.
    open: BTreeMap<Fence, Grant>,
    /// Highest fence granted.
    newest: Option<Fence>,
    is_closed: bool,
}

impl Cell {
    fn close(&mut self) {
        self.is_closed = true;
        self.open.clear();
    }
}

impl Attempts {
    /// Closed and open cells.
    pub(super) fn counts(&self) -> (u64, u64) {
        let closed = self.cells.values().filter(|cell| cell.is_closed).count();
        (closed as u64, (self.cells.len() - closed) as u64)
    }

    pub(super) fn granted(&mut self, grants: Vec<Grant>, signers: &Signers, notes: &mut Notes) {
        for grant in grants {
            let name = format!("cell {}, fence {}", grant.cell.short(), grant.fence);
            if signers.node(&grant.node).is_none() {
                notes.error(name, format!("granted to node {}, which is not enrolled", grant.node.short()));
                continue;
            }
            let cell = self.cells.entry(grant.cell).or_default();
            if cell.is_closed {
                // A cancel may overtake the batch that its cell was granted in; no result can follow.
                notes.warning(name, "granted after the cell's final entry");
            } else if cell.newest.is_some_and(|newest| newest >= grant.fence) {
                notes.error(name, "granted twice, or below a fence granted before");
            } else {
                cell.newest = Some(grant.fence);
                cell.open.insert(grant.fence, grant);
            }
        }
    }

    pub(super) fn lost(&mut self, lost: &AttemptLost, notes: &mut Notes) {
        let cell = self.cells.entry(lost.cell).or_default();
        if cell.is_closed {
            notes.error("cell", format!("{} has its final entry already", lost.cell.short()));
            return;
        }
        let attempt = lost.fence.and_then(|fence| cell.open.remove(&fence));
        if let Some(grant) = &attempt
            && (grant.submission, grant.task, grant.candidate) != (lost.submission, lost.task, lost.candidate)
        {
            notes.error("fence", "submission, task or candidate differ from the attempt's grant");
        }
        match lost.consequence {
            Consequence::Final => cell.close(),
            Consequence::Retried if attempt.is_none() => {
                notes.error("fence", "no open attempt of this cell has this fence");
            }
            Consequence::Retried => {}
        }
    }

    pub(super) fn result(&mut self, result: &ResultRecord, origin: &str, notes: &mut Notes) {
        let Some(cell) = self.cells.get_mut(&result.cell) else {
            notes.error("cell", format!("no attempt at {} was granted before", result.cell.short()));
            return;
        };
        if cell.is_closed {
            notes.error("cell", format!("{} has its final entry already", result.cell.short()));
            return;
        }
        let Some(grant) = cell.open.remove(&result.fence) else {
            notes.error("fence", format!("no open attempt of this cell has fence {}", result.fence));
            return;
        };
        let is_newest = cell.newest == Some(result.fence);
        if !is_newest {
            notes.error("fence", format!("{} is stale: a newer attempt holds the cell", result.fence));
        }
        let expected = Expected { origin, grant: &grant, peer: grant.node };
        if let Err(error) = check_result_binding(result, &expected) {
            notes.error(error.field, error.to_string());
        }
        if result.is_final() {
            cell.close();
        }
    }
}
