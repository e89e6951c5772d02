//! What each detector finds, and what it must leave alone.

use super::*;
use crate::entry::fixture::{World, mismatch, series, task};
use fleet_config::domain::*;

const BASELINE: &str =
    "__global__ void copy(const float* a, float* b) { // slow\n  int i = threadIdx.x;\n  b[i] = a[i]; }\n";

/// What detectors are asked about: a candidate with this source beside the baseline above.
fn seen(
    detector: Detector,
    source: &str,
    edit: impl FnOnce(&mut ResultRecord, &mut Task, &mut Candidate, &mut Environment),
) -> Option<Seen> {
    let mut world = World::new();
    let mut candidate = world.candidate("asked");
    let grant = world.grant(&candidate, 1);
    let mut record = world.result(&grant, Outcome::ok(), &[series("small", 2000, 1000, 10)]);
    let (mut task, mut environment) = (task(), world.environment.clone());
    edit(&mut record, &mut task, &mut candidate, &mut environment);
    let files = |text: &str| vec![text.as_bytes().to_vec()];
    let (own, baseline, reference) = (files(source), files(BASELINE), files("reference"));
    let sources = Sources { candidate: &own, baseline: &baseline, reference: &reference };
    examine(
        detector,
        &Evidenced {
            record: &record,
            task: &task,
            candidate: &candidate,
            environment: Some(&environment),
            sources,
        },
    )
}

fn text(source: &str) -> Option<&'static str> {
    seen(Detector::Text, source, |_, _, _, _| {}).map(|seen| {
        assert_eq!((seen.judgement, seen.scope), (FindingJudgement::Labelled, FindingScope::Candidate));
        seen.code
    })
}

#[test]
fn a_source_that_is_the_baselines_but_for_layout_comments_and_names_is_labelled() {
    assert_eq!(text(BASELINE), Some("text/baseline"));
    let renamed =
        "/* mine */ __global__ void copy(const float* x,float* y)\r\n{int t=threadIdx.x;y[t]=x[t];}";
    assert_eq!(text(renamed), Some("text/baseline"));
    assert_eq!(text("reference"), Some("text/reference"));
    for (from, to) in
        [("threadIdx", "blockIdx"), ("threadIdx.x", "threadIdx.y"), ("float", "double"), ("a[i]", "f(a[i])")]
    {
        assert_eq!(text(&BASELINE.replace(from, to)), None, "{from} is not {to}");
    }

    let other = BASELINE.replace("b[i] = a[i]", "b[i] = a[i] + 0.0f");
    assert_eq!(text(&other), None, "one token more is another source");
    assert_eq!(
        text(&BASELINE.replace("b[i] = a[i]", "a[i] = b[i]")),
        None,
        "names are not exchanged at will"
    );
    assert_eq!(text("// nothing but a comment"), None);
    assert_eq!(text(""), None);
}

#[test]
fn another_launch_plan_is_work_and_no_forward() {
    let plan = LaunchPlan {
        scratch: vec![Scratch {
            name: "s".to_owned(),
            element: ElementType::F32,
            count: "1".parse().unwrap(),
        }],
        steps: Vec::new(),
    };
    let found = seen(Detector::Text, BASELINE, |_, _, candidate, _| candidate.plan = Some(plan));
    assert_eq!(found, None);
}

#[test]
fn calls_of_libraries_are_labelled_and_words_that_look_like_them_are_not() {
    for source in [
        "#include <cub/block/block_reduce.cuh>",
        "#include \"cutlass/gemm/device/gemm.h\"",
        "void f() { cublasSgemm(h); }",
        "auto r = cub::BlockReduce<float, 128>();",
        "thrust::reduce(a, b);",
        "using namespace cute; cute::copy(a, b);",
    ] {
        assert_eq!(text(source), Some("text/library"), "{source}");
    }
    for source in [
        "int cub = 3; float at = 1.0f; at += cub;",
        "// thrust::reduce would do",
        "const char* s = \"cublasSgemm\";",
        "int cublasses = 0; int torches = 1; struct at_t {};",
        "a < cub",
    ] {
        assert_eq!(text(source), None, "{source}");
    }
}

#[test]
fn only_what_passed_is_judged() {
    let failed = |record: &mut ResultRecord, _: &mut Task, _: &mut Candidate, _: &mut Environment| {
        record.outcome = mismatch();
    };
    assert_eq!(seen(Detector::Text, BASELINE, failed), None);
    assert_eq!(seen(Detector::Stages, BASELINE, |_, _, _, _| {}), None, "a new attempt is needed");
}

/// An H200 with a task of `n` floats in and out; times in picoseconds.
fn floor(n: i64, candidate_ps: u64, baseline_ps: u64, model: &str, cache: Option<u64>) -> Option<Seen> {
    seen(Detector::Floor, BASELINE, |record, task, _, environment| {
        record.device_kind = DeviceKind::Gpu;
        record.timings[0].candidate_median = Picoseconds(candidate_ps);
        record.timings[0].baseline_median = Picoseconds(baseline_ps);
        let buffer = |name: &str, role| Param {
            name: name.to_owned(),
            element: ElementType::F32,
            kind: ParamKind::Buffer { role, shape: vec!["n".parse().unwrap()] },
        };
        task.params = vec![buffer("a", Role::In), buffer("b", Role::Out)];
        task.cases[1].dims.insert("n".to_owned(), n);
        environment.identity.insert(field::DEVICE_MODEL.to_owned(), Fact::Text(model.to_owned()));
        if let Some(cache) = cache {
            environment.identity.insert(field::CACHE_L2.to_owned(), Fact::Count(cache));
        }
    })
}

#[test]
fn a_time_below_what_the_memory_needs_falls_and_where_nothing_is_known_nothing_is_said() {
    const MANY: i64 = 150_000_000;
    // 1.2 GB less 60 MB of cache at 4.8 TB/s: 237.5 µs.
    let found = floor(MANY, 237_000_000, 300_000_000, "NVIDIA H200", Some(60_000_000)).unwrap();
    assert_eq!(
        (found.judgement, found.scope, found.code),
        (FindingJudgement::Falls, FindingScope::Record, "floor/bandwidth")
    );
    assert_eq!(found.evidence["floor_ps"], 237_500_000);
    canonical::to_bytes(&found.evidence).unwrap();
    assert_eq!(
        floor(MANY, 238_000_000, 300_000_000, "NVIDIA H200", Some(60_000_000)),
        None,
        "above the floor"
    );
    assert_eq!(floor(1000, 1, 1, "NVIDIA H200", Some(60_000_000)), None, "all of it fits into the cache");
    assert_eq!(
        floor(MANY, 1_000_000, 2_000_000, "NVIDIA H200", Some(60_000_000)),
        None,
        "the baseline too: a sparse task"
    );
    assert_eq!(floor(MANY, 1, 300_000_000, "NVIDIA H200", None), None, "no cache is known");
    assert_eq!(floor(MANY, 1, 300_000_000, "Example CPU", Some(0)), None, "no bandwidth is known");
}

#[test]
fn a_new_attempt_counts_only_where_the_candidate_is_at_fault() {
    let mut world = World::new();
    let candidate = world.candidate("again");
    let grant = world.grant(&candidate, 1);
    let ids = (RecordId([1; 32]), RecordId([2; 32]));
    let judged = |result: &ResultRecord| rerun(ids.0, ids.1, result);
    let failed = world.result(&grant, mismatch(), &[]);
    let found = judged(&failed).unwrap();
    assert_eq!((found.judgement, found.scope), (FindingJudgement::Falls, FindingScope::Class));
    assert!(
        found.cause.contains("wrong_result") && found.cause.contains("validate/mismatch"),
        "{}",
        found.cause
    );
    assert_eq!(judged(&world.result(&grant, Outcome::ok(), &[])), None);
    for blame in [Blame::Fleet, Blame::Task, Blame::Device] {
        let outcome = Outcome { blame, ..mismatch() };
        assert_eq!(judged(&world.result(&grant, outcome, &[])), None, "{blame:?}");
    }
}

#[test]
fn detectors_are_named_with_or_without_the_version_that_this_build_has() {
    for detector in Detector::ALL {
        assert_eq!(detector.word().parse(), Ok(detector));
        assert_eq!(detector.name().to_string().parse(), Ok(detector));
        assert!(detector.name().is_legal());
    }
    assert!(matches!("smell".parse::<Detector>(), Err(DetectorError::Unknown(_))));
    assert!(matches!("text/2".parse::<Detector>(), Err(DetectorError::Version { .. })));
    assert!(matches!("text/".parse::<Detector>(), Err(DetectorError::Version { .. })));
}

proptest::proptest! {
    #[test]
    fn no_source_makes_a_detector_panic(source in "\\PC{0,200}") {
        let _ = text(&source);
    }
}
