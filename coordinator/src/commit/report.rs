//! Judging a report: what must hold before a result may be appended.

use super::content::Content;
use super::history::committed_event;
use super::request::IncomingReport;
use super::writer::Writer;
use crate::scheduler::acceptance::{Claim, Judgement, RefuseReason};
use fleet_config::domain::LeafIndex;
use fleet_config::wire::v1::{RecordVerdict, Recorded};
use ledger::entry::predicate::{AttemptRefused, RefusalReason, ResultRecord};
use ledger::entry::{Body, Checked, Expected, Subject, check, check_result_binding};

impl Writer {
    /// Stages what the report leads to and answers with the verdict that holds once the batch is durable.
    pub(super) fn judge_report(&mut self, report: &IncomingReport, content: Content) -> Recorded {
        let checked = match check(&report.envelope, &self.signers) {
            Ok(checked) => checked,
            Err(error) => return invalid([0; 32], error.code(), error.to_string()),
        };
        let record = checked.record();
        let Some(result) = checked.result() else {
            return invalid(
                record.0,
                "report/not-a-result",
                format!("a {} entry is no result", checked.kind.word()),
            );
        };
        // The signature proves who measured; these three tie it to this peer, this ledger and this question.
        if checked.signer.node_id() != report.peer || result.node != report.peer {
            return invalid(
                record.0,
                "report/other-node",
                "the signer is not the peer that brings it".to_owned(),
            );
        }
        if result.origin != self.origin {
            return invalid(
                record.0,
                "report/other-ledger",
                format!("it is bound to the ledger {}", result.origin),
            );
        }
        if (result.cell, result.fence) != (report.cell, report.fence) {
            return invalid(
                record.0,
                "report/other-cell",
                format!("it is bound to cell {} and fence {}", result.cell, result.fence),
            );
        }
        let claim = Claim {
            cell: result.cell,
            fence: result.fence,
            node: result.node,
            device: result.device.clone(),
            nonce: result.nonce,
            record,
        };
        match self.table.judge(&claim) {
            Judgement::AlreadyRecorded(index) => self.accepted(record.0, index),
            Judgement::AlreadyRefused(index, reason) => refused(record.0, index, reason.name()),
            Judgement::Refuse(reason) => self.refuse(report, &checked, reason),
            Judgement::Accept => self.accept(report, &checked, result, content),
        }
    }

    fn accept(
        &mut self,
        report: &IncomingReport,
        checked: &Checked,
        result: &ResultRecord,
        content: Content,
    ) -> Recorded {
        let record = checked.record();
        let Some(grant) = self.grants.get(&(result.cell, result.fence)) else {
            return invalid(record.0, "report/unknown-grant", "no recorded grant fits it".to_owned());
        };
        let expected = Expected { origin: &self.origin, grant, peer: report.peer };
        if let Err(error) = check_result_binding(result, &expected) {
            let refusal = error.refusal();
            return invalid(record.0, &refusal.code, refusal.cause);
        }
        match content {
            Content::Sound => {}
            Content::Faulty { code, cause } => return invalid(record.0, code, cause),
            Content::Unknown { cause } => return later(record.0, "ledger/blob", cause),
        }
        if let Some((code, cause)) = self.misplaced(checked, result) {
            return invalid(record.0, code, cause);
        }
        let index = self.stage(report.envelope.clone());
        self.note_class(result);
        self.note(&committed_event(result, record, index));
        self.accepted(record.0, index)
    }

    /// Why this kind of entry may not end the attempt: what a holdout was opened for ends in a verification of that very
    /// opening, and what none was opened for in a result.
    fn misplaced(&self, checked: &Checked, result: &ResultRecord) -> Option<(&'static str, String)> {
        let opened = self.opened_for(result.cell, result.fence);
        match (&checked.entry.body, opened) {
            (Body::Verification(verification), Some(opened)) if verification.holdout == opened => None,
            (Body::Verification(_), Some(_)) => {
                Some(("report/holdout", "it names another opening than the one of its attempt".to_owned()))
            }
            (Body::Verification(_), None) => {
                Some(("report/holdout", "no holdout was opened for this attempt".to_owned()))
            }
            (_, Some(_)) => {
                Some(("report/holdout", "a holdout was opened, and it says nothing of it".to_owned()))
            }
            (_, None) => None,
        }
    }

    fn refuse(&mut self, report: &IncomingReport, checked: &Checked, reason: RefuseReason) -> Recorded {
        let record = checked.record();
        let envelope = match self.blobs.put(&report.envelope) {
            Ok(blob) => blob,
            Err(error) => {
                return later(record.0, "ledger/blob", error.to_string());
            }
        };
        let entry = AttemptRefused {
            cell: report.cell,
            fence: report.fence,
            node: report.peer,
            record,
            envelope,
            reason: reason_word(reason),
            refused_on: crate::clock::wall_rfc3339(),
        };
        match self.seal_and_stage(entry, Subject::of_blob("envelope", &envelope)) {
            Ok(index) => {
                self.table.refused(report.cell, report.fence, record, index, reason);
                refused(record.0, index, reason.name())
            }
            Err(refusal) => later(record.0, &refusal.code, refusal.cause),
        }
    }

    fn accepted(&self, record: [u8; 32], index: LeafIndex) -> Recorded {
        let bytes = promise_bytes(&self.origin, &record, index);
        let promise = self.promises.sign_bytes(PROMISE_CONTEXT, &bytes).to_vec();
        Recorded { record, verdict: RecordVerdict::Accepted { index: index.0, promise } }
    }
}

/// Context of a promise's signature, see [`ledger::log::LogSigner::sign_bytes`].
pub const PROMISE_CONTEXT: &str = "muster-promise/1";

/// What a promise is about: origin, newline, record id, index in eight bytes, big-endian.
pub fn promise_bytes(origin: &str, record: &[u8; 32], index: LeafIndex) -> Vec<u8> {
    [origin.as_bytes(), b"\n", record, &index.0.to_be_bytes()].concat()
}

fn invalid(record: [u8; 32], code: &str, cause: String) -> Recorded {
    Recorded { record, verdict: RecordVerdict::Invalid { code: code.to_owned(), cause } }
}

fn refused(record: [u8; 32], index: LeafIndex, reason: &str) -> Recorded {
    Recorded { record, verdict: RecordVerdict::Refused { index: index.0, reason: reason.to_owned() } }
}

fn later(record: [u8; 32], code: &str, cause: String) -> Recorded {
    Recorded { record, verdict: RecordVerdict::Later { code: code.to_owned(), cause } }
}

fn reason_word(reason: RefuseReason) -> RefusalReason {
    match reason {
        RefuseReason::UnknownCell => RefusalReason::UnknownCell,
        RefuseReason::CellClosed => RefusalReason::CellClosed,
        RefuseReason::StaleFence => RefusalReason::StaleFence,
        RefuseReason::UnknownFence => RefusalReason::UnknownFence,
        RefuseReason::WrongNode => RefusalReason::WrongNode,
        RefuseReason::WrongDevice => RefusalReason::WrongDevice,
        RefuseReason::WrongNonce => RefusalReason::WrongNonce,
    }
}
