//! Which cell goes to which device, and what is said where none fits.

use super::*;
use fleet_config::domain::{Fact as DeviceFact, field};

#[test]
fn a_cell_is_journalled_recorded_assigned_and_finished_in_this_order() {
    let mut bench = Bench::new();
    bench.join(1);
    let (cells, effects) = bench.submit(1, "a");
    assert!(matches!(effects[0], Effect::Persist { sequence: 1, fact: Fact::SubmissionAccepted(_) }));
    assert!(matches!(effects.last(), Some(Effect::RecordGrants(_))));
    assert_eq!(assigned(&effects), [], "nothing is sent before the grant is recorded");
    let (granted, after) = bench.record(&effects);
    assert_eq!(granted[0].fence, Fence(2), "the fence is the journal's number");
    assert_eq!((granted[0].attempt, granted[0].seeds.len()), (1, 3));
    assert_eq!(assigned(&after), [Fence(2)]);
    let done = bench.commit(&granted[0], Status::Ok, Blame::Nobody);
    assert!(done.iter().any(|effect| matches!(effect, Effect::Publish(Event::SubmissionFinished { .. }))));
    assert!(matches!(
        bench.standing(cells[0]),
        Standing::Finished(Ending::Result { status: Status::Ok, .. })
    ));
}

#[test]
fn submissions_take_turns_and_nodes_are_used_evenly() {
    let mut bench = Bench::new();
    let (first, _) = bench.submit(3, "a");
    let (second, _) = bench.submit(3, "b");
    let effects = (1..=4).flat_map(|byte| bench.join(byte)).collect();
    let cells: Vec<CellId> = grants(&effects).iter().map(|grant| grant.cell).collect();
    assert_eq!(cells, [first[0], second[0], first[1], second[1]]);
    let nodes: BTreeSet<NodeId> = grants(&effects).iter().map(|grant| grant.node).collect();
    assert_eq!(nodes.len(), 4);
}

#[test]
fn a_device_too_small_or_of_another_class_gets_nothing_and_explain_says_so() {
    let mut bench = Bench::new();
    let (cells, effects) = bench.submit(1, "a");
    let warned = effects.iter().any(|effect| match effect {
        Effect::Reply { reply: Reply::Accepted { warnings, .. }, .. } => {
            warnings.len() == 1 && warnings[0].code == "submit/no-such-class"
        }
        _ => false,
    });
    assert!(warned);
    assert_eq!(bench.obstacles(cells[0]), [Obstacle::NoDeviceOfClass]);
    bench.hello(node(1), 1, &[device("CPU-1", "cpu:aarch64", 2000)], &[]);
    assert_eq!(bench.obstacles(cells[0]), [Obstacle::NoDeviceOfClass]);
    let effects = bench.hello(node(2), 2, &[device("CPU-2", CLASS, 999)], &[]);
    assert_eq!(grants(&effects), []);
    let small = Obstacle::MemoryTooSmall { devices: 1, need: Bytes(1000), largest: Bytes(999) };
    assert_eq!(bench.obstacles(cells[0]), [small]);
    assert_eq!(grants(&bench.join(3)).len(), 1);
}

#[test]
fn a_cell_that_fits_nowhere_does_not_hold_up_other_submissions() {
    let mut bench = Bench::new();
    bench.submit_with(submission(1, "huge"), Terms { memory: Bytes(1 << 40), ..terms() });
    let (cells, _) = bench.submit(1, "small");
    let effects = bench.join(1);
    assert_eq!(grants(&effects)[0].cell, cells[0]);
}

#[test]
fn changed_devices_count_at_once_and_what_runs_goes_on() {
    let mut bench = Bench::new();
    bench.join(1);
    let (cells, effects) = bench.submit(2, "a");
    let (granted, _) = bench.record(&effects);
    assert_eq!(granted.len(), 1, "one device, one lease");
    let class = granted[0].class.to_string();
    let changed = |devices| Input::DevicesChanged { node: node(1), session: session(1), devices };
    let old = Input::DevicesChanged { node: node(1), session: session(0), devices: vec![] };
    assert_eq!(bench.step(old), [], "words of another connection are ignored");
    let more = bench.step(changed(vec![device("second", &class, 1 << 40)]));
    let (second, _) = bench.record(&more);
    assert_eq!(second.len(), 1, "the new device takes the cell that waited: {more:?}");
    assert_eq!(second[0].device, DeviceId("second".to_owned()));
    assert_eq!(losses(&more), [], "the attempt on the device that is gone goes on");
    bench.commit(&granted[0], Status::Ok, Blame::Nobody);
    assert!(matches!(bench.standing(granted[0].cell), Standing::Finished(_)));
    let (_, effects) = bench.submit(1, "b");
    assert_eq!(grants(&effects), [], "the device that is gone takes no more");
    assert_eq!(cells.len(), 2);
    let twice = bench.step(changed(vec![device("x", &class, 1), device("x", &class, 1)]));
    assert_eq!(refusal(&twice), "node/device-twice");
}

#[test]
fn a_quarantined_device_is_shown_and_gets_no_work_until_it_is_released() {
    let mut bench = Bench::new();
    bench.join(1);
    let changed = |devices| Input::DevicesChanged { node: node(1), session: session(1), devices };
    let mut ill = device("gpu", CLASS, 1 << 40);
    ill.configuration.insert(field::HEALTH.to_owned(), DeviceFact::Text("quarantined".to_owned()));
    assert_eq!(bench.step(changed(vec![ill])), []);
    let (_, effects) = bench.submit(1, "a");
    assert_eq!(grants(&effects), []);
    let shown = bench.scheduler.nodes();
    assert!(shown[0].devices.iter().any(|device| device.id == DeviceId("gpu".to_owned())), "{shown:?}");
    let mut doubted = device("gpu", CLASS, 1 << 40);
    doubted.configuration.insert(field::HEALTH.to_owned(), DeviceFact::Text("suspect".to_owned()));
    let (granted, _) = {
        let effects = bench.step(changed(vec![doubted]));
        bench.record(&effects)
    };
    assert_eq!(granted.len(), 1, "a doubt takes no work away");
}
