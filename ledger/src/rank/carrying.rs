//! Matrix and portability over several classes, against a table computed by hand.

use super::matrix::{Cell, Matrix, matrix};
use super::portability::{Portability, Unit, portability};
use super::*;
use crate::entry::Sealed;
use crate::entry::fixture::{World, mismatch, series, task};
use crate::entry::predicate::Build;
use fleet_config::domain::*;
use std::collections::BTreeMap;

/// A result of `name` that is so many times as fast as the baseline; none is wrong.
fn result(world: &mut World, name: &str, fence: u64, speed_up: Option<u64>) -> Sealed {
    let candidate = world.candidate(name);
    let grant = world.grant(&candidate, fence);
    let record = match speed_up {
        Some(times) => {
            let cases = ["small", "large"].map(|case| series(case, 10_000_000 * times, 10_000_000, 20));
            world.result(&grant, Outcome::ok(), &cases)
        }
        None => world.result(&grant, mismatch(), &[]),
    };
    world.sealed_result(&candidate, record)
}

/// Two GPU classes, a CPU class and an architecture that is only compiled for.
///
/// | candidate | H200 | other GPU | CPU | compiled |
/// | --- | --- | --- | --- | --- |
/// | even | 2 | 2 | 2 | yes |
/// | fast here | 4 | wrong | 1 | – |
/// | fast there | wrong | 8 | – | fails |
fn world() -> (Matrix, Portability) {
    let mut world = World::new();
    let family = FamilyId([5; 32]);
    // (candidate, class, speed-up, compiled alone)
    let tried: [(&str, u8, Option<u64>, bool); 10] = [
        ("even", 1, Some(2), false),
        ("even", 2, Some(2), false),
        ("even", 3, Some(2), false),
        ("even", 4, Some(1), true),
        ("fast here", 1, Some(4), false),
        ("fast here", 2, None, false),
        ("fast here", 3, Some(1), false),
        ("fast there", 1, None, false),
        ("fast there", 2, Some(8), false),
        ("fast there", 4, None, true),
    ];
    let entries: Vec<Sealed> = (1..)
        .zip(tried)
        .map(|(fence, (name, _, speed_up, _))| result(&mut world, name, fence, speed_up))
        .collect();
    let id = TaskId(world.task.digest().0);
    let numbered = entries.iter().enumerate().map(|(leaf, e)| (LeafIndex(leaf as u64), e.bytes.clone()));
    let mut results = collect(id, numbered, &mut |digest| world.blobs.get(digest).cloned()).unwrap().1;
    for (input, (name, class, speed_up, compiled)) in results.iter_mut().zip(tried) {
        let (kind, architecture, model) = match class {
            1 => (DeviceKind::Gpu, "nvidia:sm_90a", "NVIDIA H200"),
            2 => (DeviceKind::Gpu, "nvidia:sm_80", "some GPU"),
            3 => (DeviceKind::Cpu, "cpu:x86-64-v3", "some CPU"),
            _ => (DeviceKind::Compile, "nvidia:sm_120a", ""),
        };
        input.record.class = ClassId([class; 32]);
        input.record.device_kind = kind;
        input.record.architecture = architecture.parse().unwrap();
        input.device_model = model.to_owned();
        if name != "even" {
            input.family = Some(family);
        }
        let resources = BTreeMap::from([("registers".to_owned(), 32)]);
        let build = Build {
            key: Digest([1; 32]),
            compiler: "NVRTC 13".to_owned(),
            flags: Vec::new(),
            artefact: None,
            resources,
        };
        input.record.build = (speed_up.is_some() || !compiled).then_some(build);
    }
    let ranking = rank(&task(), id, results.clone(), 10, SandboxLevel::None);
    // 38.4 MB in and out: 8 µs of an H200's memory, and candidates take 10 µs.
    let mut moving = task();
    let buffer = |name: &str, role| Param {
        name: name.to_owned(),
        element: ElementType::F32,
        kind: ParamKind::Buffer { role, shape: vec!["n".parse().unwrap()] },
    };
    moving.params = vec![buffer("a", Role::In), buffer("b", Role::Out)];
    for case in &mut moving.cases {
        case.dims.insert("n".to_owned(), 4_800_000);
    }
    let matrix = matrix(&moving, &ranking, &results);
    let scores = portability(&matrix);
    (matrix, scores)
}

#[test]
fn every_cell_says_what_it_is_worth_or_why_not() {
    let (matrix, _) = world();
    let columns: Vec<(DeviceKind, &str)> =
        matrix.columns.iter().map(|c| (c.device_kind, c.architecture.as_str())).collect();
    assert_eq!(
        columns,
        [
            (DeviceKind::Gpu, "nvidia:sm_80"),
            (DeviceKind::Gpu, "nvidia:sm_90a"),
            (DeviceKind::Cpu, "cpu:x86-64-v3"),
            (DeviceKind::Compile, "nvidia:sm_120a"),
        ]
    );
    assert_eq!(matrix.columns[1].bandwidth.as_ref().map(|(bytes, _)| *bytes), Some(4_800_000_000_000));
    assert_eq!(matrix.columns[0].bandwidth, None, "an unknown board has no figures");
    let word = |cell: &Cell| match cell {
        Cell::Valid(worth) => format!("{:.1}", worth.speed_up.ratio()),
        Cell::Invalid(reason) => reason.status.clone(),
        Cell::Compiled { resources, .. } => format!("{} registers", resources["registers"]),
        Cell::Untried => "untried".to_owned(),
    };
    let rows: Vec<(&str, Vec<String>)> =
        matrix.rows.iter().map(|row| (row.name.as_str(), row.cells.iter().map(word).collect())).collect();
    let row = |words: [&str; 4]| words.map(str::to_owned).to_vec();
    assert_eq!(
        rows,
        [
            ("baseline", row(["1.0", "1.0", "1.0", "untried"])),
            ("even", row(["2.0", "2.0", "2.0", "32 registers"])),
            ("fast here", row(["wrong_result", "4.0", "1.0", "untried"])),
            ("fast there", row(["8.0", "wrong_result", "untried", "wrong_result"])),
        ]
    );
    let Cell::Valid(worth) = &matrix.rows[1].cells[1] else { panic!("valid on the H200") };
    let share = worth.memory_share.unwrap();
    assert!((750_000_000..820_000_000).contains(&share.0), "{share}");
    let Cell::Valid(worth) = &matrix.rows[1].cells[0] else { panic!("valid on the other GPU") };
    assert_eq!(worth.memory_share, None);
    assert_eq!(matrix.notice, CPU_NOTICE);
}

#[test]
fn portability_is_that_of_the_table_computed_by_hand() {
    let (_, scores) = world();
    let row = |unit: Unit, name: &str| {
        let found = scores.rows.iter().find(|row| row.unit == unit && row.name == name);
        found.unwrap_or_else(|| panic!("{name} in {scores:#?}"))
    };
    let near = |found: PartsPerBillion, expected: f64| {
        assert!((found.ratio() - expected).abs() < 0.01, "{found} and not {expected}");
    };
    assert_eq!(scores.targets.len(), 3, "what only compiles is no target");
    // Efficiencies on sm_80, H200 and CPU: 2/8, 2/4, 2/2. Three over the sum of their inverses, 4 + 2 + 1.
    let even = row(Unit::Source, "even");
    near(even.portability, 3.0 / 7.0);
    assert_eq!((even.valid_on, even.of, even.is_on_front), (3, 3, true));
    near(even.worst.unwrap(), 0.25);
    assert_eq!(even.worst_target, Some(ClassId([2; 32])));
    // 4/4 and 1/2 on two of three: none over all, 2 / (1 + 2) over those.
    let here = row(Unit::Source, "fast here");
    assert_eq!((here.portability.0, here.valid_on), (0, 2));
    near(here.where_valid.unwrap(), 2.0 / 3.0);
    assert!(here.is_on_front && row(Unit::Source, "fast there").is_on_front);
    // The baseline: 1/8, 1/4, 1/2; `even` is better everywhere.
    near(row(Unit::Source, "baseline").portability, 3.0 / 14.0);
    assert!(!row(Unit::Source, "baseline").is_on_front);
    // The family has the best of both: 8/8, 4/4, 1/2.
    let family = row(Unit::Family, &FamilyId([5; 32]).short());
    near(family.portability, 3.0 / 4.0);
    assert_eq!(family.valid_on, 3);
    assert!(scores.denominator.contains("best speed-up"));
    assert!(scores.left_aside.is_empty());
}
