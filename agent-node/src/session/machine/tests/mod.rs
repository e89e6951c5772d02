//! The conversation, step by step, and what must hold whatever happens.

use super::*;
use fleet_config::wire::v1::{Blob, Progress, RecordVerdict, Recorded};
use fleet_config::wire::v2::Assign;
use proptest::prelude::*;

mod assignment;
mod connection;
mod invariant;
mod result;

const T0: Moment = Moment(1_000);

fn device(id: &str) -> Device {
    Device { id: id.to_owned(), description: vec![] }
}

fn key(cell: u8, fence: u64) -> AttemptKey {
    AttemptKey { cell: CellId([cell; 32]), fence: Fence(fence) }
}

fn assign(cell: u8, fence: u64, device: &str) -> Box<Assign> {
    let blob = Blob { blake3: [0; 32], sha256: [0; 32], size: 0 };
    Box::new(Assign {
        submission: [0; 32],
        cell: [cell; 32],
        fence,
        task: blob,
        candidate: blob,
        policy: blob,
        device: device.to_owned(),
        nonce: [0; 32],
        seeds: vec![],
        compile_ms: 1,
        run_ms: 1,
        sealed: None,
        queued_ms: 0,
    })
}

fn welcome(stop: Vec<([u8; 32], u64)>) -> Welcome {
    let text = String::new();
    Welcome { node: [0; 32], origin: text.clone(), log_vkey: text, heartbeat_ms: 2_000, stop }
}

fn recorded(verdict: RecordVerdict) -> Recorded {
    Recorded { record: [1; 32], verdict }
}

fn accepted() -> Recorded {
    recorded(RecordVerdict::Accepted { index: 7, promise: vec![1] })
}

fn later() -> Recorded {
    recorded(RecordVerdict::Later { code: String::new(), cause: String::new() })
}

fn goodbye(retry: bool) -> Goodbye {
    let next = "ask".to_owned();
    Goodbye { code: "join/invite-expired".to_owned(), cause: "late".to_owned(), next, retry }
}

fn new() -> Machine {
    Machine::new(vec![device("A"), device("B")], vec![])
}

/// A machine that was welcomed at [`T0`].
fn ready() -> Machine {
    ready_with(vec![], vec![])
}

fn ready_with(signed: Vec<(AttemptKey, String)>, stop: Vec<([u8; 32], u64)>) -> Machine {
    let mut machine = Machine::new(vec![device("A"), device("B")], signed);
    assert_eq!(machine.step(T0, Input::Begin), [Effect::Connect { dial: 0 }]);
    machine.step(T0, Input::Connected);
    machine.step(T0, Input::Welcomed(welcome(stop)));
    machine
}

fn assigned(machine: &mut Machine, stream: u64, cell: u8, fence: u64, device: &str) -> Vec<Effect> {
    machine.step(T0, Input::Assigned { stream: StreamKey(stream), assign: assign(cell, fence, device) })
}

#[track_caller]
fn declined(effects: &[Effect], expected: &str) {
    match effects {
        [Effect::Decline { code, .. }] => assert_eq!(*code, expected),
        other => panic!("{other:?}"),
    }
}
