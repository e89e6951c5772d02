//! Tests of the scheduler, one step at a time; whole histories are in `tests/sim`.

use super::explain::{Explanation, Obstacle};
use super::limits::{ATTEMPTS_MAX, NODE_TIMEOUT};
use super::view::Standing;
use super::*;
use fleet_config::domain::Nonce;
use fleet_config::domain::{
    Blame, Bytes, CandidateId, DeviceDescription, DeviceId, DeviceKind, Facts, LeafIndex, Milliseconds,
    RecordId, Reuse, Stage, Status, Submission,
};

mod demand;
mod loss;
mod restart;
mod table;
mod turns;

const CLASS: &str = "cpu:x86-64-v2";

/// A scheduler with a journal that is always durable and a ledger that answers at once when told to.
struct Bench {
    scheduler: Scheduler,
    now: Duration,
    facts: Vec<(u64, Fact)>,
    ledger: Vec<LedgerEvent>,
    requests: u64,
}

fn node(byte: u8) -> NodeId {
    NodeId([byte; 32])
}

fn session(number: u64) -> SessionId {
    SessionId(number)
}

fn device(name: &str, architecture: &str, memory: u64) -> DeviceDescription {
    DeviceDescription {
        id: DeviceId(name.to_owned()),
        kind: DeviceKind::Cpu,
        architecture: architecture.parse().unwrap(),
        memory,
        identity: Facts::new(),
        configuration: Facts::new(),
        attributes: BTreeMap::new(),
    }
}

fn submission(candidates: u8, nonce: &str) -> Submission {
    Submission {
        format: Submission::FORMAT.to_owned(),
        task: TaskId([9; 32]),
        candidates: (0..candidates).map(|byte| CandidateId([byte; 32])).collect(),
        targets: vec![CLASS.parse().unwrap()],
        policy: PolicyId([8; 32]),
        reuse: Reuse::Allowed,
        holdout: None,
        nonce: nonce.to_owned(),
    }
}

fn terms() -> Terms {
    Terms {
        memory: Bytes(1000),
        queue: None,
        compile: Milliseconds(10_000),
        run: Milliseconds(10_000),
        seeds: 3,
    }
}

impl Bench {
    fn new() -> Self {
        let scheduler = Scheduler::replay([]).unwrap();
        let mut bench =
            Self { scheduler, now: Duration::ZERO, facts: Vec::new(), ledger: Vec::new(), requests: 0 };
        bench.step(Input::RecoveryComplete);
        bench
    }

    fn step(&mut self, input: Input) -> Effects {
        let effects = self.scheduler.step(self.now, input);
        for effect in &effects {
            if let Effect::Persist { sequence, fact } = effect {
                self.facts.push((*sequence, fact.clone()));
            }
        }
        effects
    }

    fn ledger(&mut self, event: LedgerEvent) -> Effects {
        self.ledger.push(event.clone());
        self.step(Input::Ledger(event))
    }

    fn request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    fn submit_with(&mut self, submission: Submission, terms: Terms) -> Effects {
        let (request, entropy, reused) = (self.request(), Digest([5; 32]), BTreeMap::new());
        self.step(Input::Submit(Box::new(SubmitRequest { request, submission, terms, entropy, reused })))
    }

    fn submit(&mut self, candidates: u8, nonce: &str) -> (Vec<CellId>, Effects) {
        let submission = submission(candidates, nonce);
        let id = submission.id().unwrap();
        let cells = submission.cells(id).into_iter().map(|(cell, _, _)| cell).collect();
        (cells, self.submit_with(submission, terms()))
    }

    fn hello(
        &mut self,
        id: NodeId,
        number: u64,
        devices: &[DeviceDescription],
        held: &[HeldAttempt],
    ) -> Effects {
        let (devices, held) = (devices.to_vec(), held.to_vec());
        self.step(Input::NodeHello { node: id, session: session(number), devices, held })
    }

    /// A node with one device of the class, named after it.
    fn join(&mut self, byte: u8) -> Effects {
        let name = format!("CPU-{byte}");
        self.hello(node(byte), u64::from(byte), &[device(&name, CLASS, 2000)], &[])
    }

    /// Records the grants of `effects`; returns them and what followed.
    fn record(&mut self, effects: &Effects) -> (Vec<Grant>, Effects) {
        let grants = grants(effects);
        let index = LeafIndex(self.ledger.len() as u64);
        let fences = grants.iter().map(|grant| grant.fence).collect();
        let after = self.ledger(LedgerEvent::GrantsRecorded { fences, index });
        (grants, after)
    }

    fn commit(&mut self, grant: &Grant, status: Status, blame: Blame) -> Effects {
        let index = LeafIndex(self.ledger.len() as u64);
        let (cell, fence, record) = (grant.cell, grant.fence, RecordId([1; 32]));
        self.ledger(LedgerEvent::Committed { cell, fence, record, status, blame, index })
    }

    fn lost(&mut self, grant: &Grant) -> Effects {
        let index = LeafIndex(self.ledger.len() as u64);
        self.ledger(LedgerEvent::Lost { cell: grant.cell, fence: grant.fence, index })
    }

    fn beat(&mut self, byte: u8, number: u64) -> Effects {
        self.step(Input::Heartbeat { node: node(byte), session: session(number) })
    }

    fn wait(&mut self, seconds: u64) -> Effects {
        let mut all = Effects::new();
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            all.extend(self.step(Input::Tick));
        }
        all
    }

    fn restarted(&self) -> (Self, Effects) {
        let mut scheduler = Scheduler::replay(self.facts.clone()).unwrap();
        for event in &self.ledger {
            assert_eq!(scheduler.step(Duration::ZERO, Input::Ledger(event.clone())), []);
        }
        let (facts, ledger) = (self.facts.clone(), self.ledger.clone());
        let mut bench = Self { scheduler, now: Duration::ZERO, facts, ledger, requests: 0 };
        let effects = bench.step(Input::RecoveryComplete);
        (bench, effects)
    }

    fn standing(&self, cell: CellId) -> Standing {
        self.scheduler.cell(cell).unwrap().standing
    }

    fn obstacles(&self, cell: CellId) -> Vec<Obstacle> {
        match self.scheduler.explain(cell) {
            Some(Explanation::Waiting { obstacles, .. }) => obstacles,
            other => panic!("not waiting: {other:?}"),
        }
    }
}

fn grants(effects: &Effects) -> Vec<Grant> {
    let batches = effects.iter().filter_map(|effect| match effect {
        Effect::RecordGrants(grants) => Some(grants.clone()),
        _ => None,
    });
    batches.flatten().collect()
}

fn held(grant: &Grant) -> HeldAttempt {
    HeldAttempt { cell: grant.cell, fence: grant.fence, device: grant.device.clone() }
}

fn losses(effects: &Effects) -> Vec<(Fence, LostReason)> {
    let losses = effects.iter().filter_map(|effect| match effect {
        Effect::RecordLost { fence, reason, .. } => Some((*fence, *reason)),
        _ => None,
    });
    losses.collect()
}

fn ends(effects: &Effects) -> Vec<(CellId, EndReason)> {
    let ends = effects.iter().filter_map(|effect| match effect {
        Effect::RecordEnd { about, reason, .. } => Some((about.cell, *reason)),
        _ => None,
    });
    ends.collect()
}

fn cancels(effects: &Effects) -> Vec<Fence> {
    let cancels = effects.iter().filter_map(|effect| match effect {
        Effect::CancelOnNode { fence, .. } => Some(*fence),
        _ => None,
    });
    cancels.collect()
}

fn assigned(effects: &Effects) -> Vec<Fence> {
    let assigned = effects.iter().filter_map(|effect| match effect {
        Effect::Assign { grant, .. } => Some(grant.fence),
        _ => None,
    });
    assigned.collect()
}

fn refusal(effects: &Effects) -> String {
    let mut refusals = effects.iter().filter_map(|effect| match effect {
        Effect::Reply { reply: Reply::Refused(refusal), .. }
        | Effect::Disconnect { refusal, .. }
        | Effect::Halt { refusal } => Some(refusal.code.to_string()),
        _ => None,
    });
    refusals.next().unwrap_or_default()
}
