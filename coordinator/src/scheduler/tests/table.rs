//! The acceptance table: one result for each cell, from its lease alone.

use super::*;

fn claim(grant: &Grant) -> Claim {
    let Grant { cell, fence, node, device, nonce, .. } = grant.clone();
    Claim { cell, fence, node, device, nonce, record: RecordId([1; 32]) }
}

fn committed(claim: &Claim, status: Status, blame: Blame, index: u64) -> LedgerEvent {
    let (cell, fence, record, index) = (claim.cell, claim.fence, claim.record, LeafIndex(index));
    LedgerEvent::Committed { cell, fence, record, status, blame, index }
}

#[test]
fn the_table_accepts_a_result_once_and_from_its_lease_alone() {
    let mut bench = Bench::new();
    bench.join(1);
    bench.join(2);
    let (_, effects) = bench.submit(2, "a");
    let (granted, _) = bench.record(&effects);
    let mut table = AcceptanceTable::default();
    for grant in &granted {
        table.granted(&LeaseGrant::from(grant));
    }
    let (good, other) = (claim(&granted[0]), claim(&granted[1]));
    let refused = |table: &AcceptanceTable, claim: Claim| match table.judge(&claim) {
        Judgement::Refuse(reason) => reason,
        judgement => panic!("{judgement:?}"),
    };
    // A valid result of one cell, sent for another cell, by another node, for another device or attempt.
    assert_eq!(refused(&table, Claim { cell: other.cell, ..good.clone() }), RefuseReason::StaleFence);
    assert_eq!(refused(&table, Claim { cell: CellId([0; 32]), ..good.clone() }), RefuseReason::UnknownCell);
    assert_eq!(refused(&table, Claim { node: other.node, ..good.clone() }), RefuseReason::WrongNode);
    assert_eq!(refused(&table, Claim { device: other.device, ..good.clone() }), RefuseReason::WrongDevice);
    assert_eq!(refused(&table, Claim { nonce: other.nonce, ..good.clone() }), RefuseReason::WrongNonce);
    assert_eq!(refused(&table, Claim { fence: Fence(99), ..good.clone() }), RefuseReason::UnknownFence);
    assert_eq!(table.judge(&good), Judgement::Accept);
    table.apply(&committed(&good, Status::Ok, Blame::Nobody, 7));
    assert_eq!(table.judge(&good), Judgement::AlreadyRecorded(LeafIndex(7)));
    let second = Claim { record: RecordId([2; 32]), ..good.clone() };
    assert_eq!(refused(&table, second.clone()), RefuseReason::CellClosed);
    let reason = RefuseReason::CellClosed;
    table.refused(second.cell, second.fence, second.record, LeafIndex(8), reason);
    assert_eq!(table.judge(&second), Judgement::AlreadyRefused(LeafIndex(8), reason));
    assert!(!table.may_lose(good.cell, good.fence) && !table.may_end(good.cell));
}

#[test]
fn the_table_refuses_a_late_result_and_takes_that_of_the_next_attempt() {
    let mut table = AcceptanceTable::default();
    let lease = |fence| LeaseGrant {
        fence: Fence(fence),
        cell: CellId([1; 32]),
        node: node(1),
        device: DeviceId("CPU-1".to_owned()),
        nonce: Nonce([u8::try_from(fence).unwrap(); 32]),
        seeds: vec![],
    };
    let claim = |fence: u64| {
        let LeaseGrant { fence, cell, node, device, nonce, seeds: _ } = lease(fence);
        Claim { cell, fence, node, device, nonce, record: RecordId([9; 32]) }
    };
    table.granted(&lease(3));
    assert!(table.may_lose(CellId([1; 32]), Fence(3)));
    table.apply(&LedgerEvent::Lost { cell: CellId([1; 32]), fence: Fence(3), index: LeafIndex(0) });
    assert_eq!(table.judge(&claim(3)), Judgement::Refuse(RefuseReason::StaleFence));
    table.granted(&lease(5));
    table.granted(&lease(3));
    assert_eq!(table.judge(&claim(3)), Judgement::Refuse(RefuseReason::StaleFence));
    assert_eq!(table.judge(&claim(5)), Judgement::Accept);
    table.apply(&committed(&claim(5), Status::Infrastructure, Blame::Fleet, 4));
    assert!(table.may_end(CellId([1; 32])), "a retried result leaves the cell open");
    assert_eq!(table.judge(&claim(5)), Judgement::AlreadyRecorded(LeafIndex(4)));
    let (cell, reason, index) = (CellId([1; 32]), EndReason::Cancelled, LeafIndex(6));
    table.apply(&LedgerEvent::Ended { cell, reason, index });
    table.granted(&lease(8));
    assert_eq!(table.judge(&claim(8)), Judgement::Refuse(RefuseReason::CellClosed));
}
