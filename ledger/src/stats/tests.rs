//! Known values, and whether intervals cover what they claim to.

use super::generator::SplitMix64;
use super::*;
use fleet_config::domain::{Picoseconds, SampleSeries};

#[test]
fn the_generator_gives_the_published_stream() {
    // Output of splitmix64.c for the seed 1234567, as quoted by many ports of it.
    let mut generator = SplitMix64::new(1_234_567);
    let first: Vec<u64> = (0..3).map(|_| generator.draw()).collect();
    assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
}

#[test]
fn bounded_draws_stay_below_their_bound_and_reach_all_of_it() {
    let mut generator = SplitMix64::new(3);
    let mut counts = [0u32; 7];
    for _ in 0..7000 {
        counts[generator.below(7) as usize] += 1;
    }
    assert!(counts.iter().all(|&count| (850..1150).contains(&count)), "{counts:?}");
    assert_eq!(generator.below(1), 0);
}

#[test]
fn quantiles_are_those_of_type_7() {
    // R: quantile(c(1, 2, 4, 8), c(.1, .25, .5, .9), type = 7)
    let numbers = [1.0, 2.0, 4.0, 8.0];
    for (p, expected) in [(0.0, 1.0), (0.1, 1.3), (0.25, 1.75), (0.5, 3.0), (0.9, 6.8), (1.0, 8.0)] {
        assert!((quantile(&numbers, p).unwrap() - expected).abs() < 1e-12, "{p}");
    }
    assert_eq!(quantile(&[], 0.5), None);
    assert_eq!(quantile(&[5.0], 0.9), Some(5.0));
}

#[test]
fn medians_and_deviations_have_their_known_values() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    assert_eq!(median(&[]), None);
    assert_eq!(median_absolute_deviation(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]), Some(1.0));
    assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
    assert_eq!(mean(&[]), None);
}

#[test]
fn twice_and_half_as_fast_have_the_geometric_mean_one() {
    let series = |baseline, candidate| SampleSeries {
        format: SampleSeries::FORMAT.to_owned(),
        case: "case".to_owned(),
        baseline: vec![Picoseconds(baseline); 3],
        candidate: vec![Picoseconds(candidate); 3],
        warmups: 0,
    };
    let logs: Vec<f64> = [series(2000, 1000), series(1000, 2000)]
        .iter()
        .map(|series| median(&log_ratios(series)).unwrap())
        .collect();
    assert_eq!(parts_per_billion(geometric_mean(&logs).unwrap()).0, 1_000_000_000);
    assert_eq!(parts_per_billion(libm::exp(logs[0])).0, 2_000_000_000);
    assert_eq!(parts_per_billion(f64::INFINITY).0, (1 << 53) - 1);
}

/// Log-ratios around `centre` with heavy tails, as timings have them.
fn noisy(generator: &mut SplitMix64, centre: f64, pairs: usize) -> Vec<f64> {
    let mut unit = || (generator.draw() >> 11) as f64 / (1u64 << 53) as f64;
    (0..pairs)
        .map(|_| {
            let bell = unit() + unit() + unit() + unit() - 2.0;
            let tail = if unit() < 0.05 { 0.3 * (unit() - 0.5) } else { 0.0 };
            centre + 0.02 * bell + tail
        })
        .collect()
}

#[test]
fn intervals_cover_the_true_value_about_as_often_as_they_say() {
    let mut generator = SplitMix64::new(42);
    let (mut covered, trials) = (0, 120);
    for trial in 0..trials {
        let cases = [noisy(&mut generator, 0.1, 20), noisy(&mut generator, 0.3, 20)];
        let interval = geometric_mean_interval(&cases, trial).unwrap();
        assert!(interval.low <= interval.high);
        let truth = libm::exp(0.2);
        covered += u32::from(interval.low <= truth && truth <= interval.high);
    }
    // 95 % claimed; percentile intervals of medians of 20 pairs run a little wide or narrow.
    assert!((106..=120).contains(&covered), "{covered} of {trials} (seed 42)");
}

#[test]
fn more_pairs_narrow_the_interval() {
    let mut generator = SplitMix64::new(7);
    let width = |interval: Interval| interval.high - interval.low;
    let few = width(median_interval(&noisy(&mut generator, 0.0, 10), 1).unwrap());
    let many = width(median_interval(&noisy(&mut generator, 0.0, 200), 1).unwrap());
    assert!(many < few / 2.0, "{many} against {few}");
}

#[test]
fn the_same_input_gives_the_same_bits() {
    let mut generator = SplitMix64::new(9);
    let cases = vec![noisy(&mut generator, 0.5, 11), noisy(&mut generator, 0.1, 14)];
    let once = geometric_mean_interval(&cases, 5).unwrap();
    let again = geometric_mean_interval(&cases, 5).unwrap();
    assert_eq!(once.low.to_bits(), again.low.to_bits());
    // Golden: a change of generator, order or library would change what was published.
    let published = (parts_per_billion(once.low).0, parts_per_billion(once.high).0);
    assert_eq!(published, (1_345_506_306, 1_357_391_618));
    assert_eq!(geometric_mean_interval(&[], 5), None);
    assert_eq!(geometric_mean_interval(&[vec![0.1], vec![]], 5), None);
}

/// Numbers of numpy, scipy and statsmodels; `tests/python/check_statistics.py` makes and checks them.
fn vectors() -> serde_json::Value {
    serde_json::from_str(include_str!("../../../tests/vectors/statistics.json")).unwrap()
}

fn floats(value: &serde_json::Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn near(found: f64, expected: f64, what: &str) {
    let allowed = 1e-9 * expected.abs().max(1.0);
    assert!(found == expected || (found - expected).abs() <= allowed, "{what}: {found} and not {expected}");
}

#[test]
fn distributions_and_adjusted_p_values_are_those_of_scipy_and_statsmodels() {
    let vectors = vectors();
    let rows = |name: &str| vectors[name].as_array().unwrap().iter().map(floats).collect::<Vec<_>>();
    for row in rows("student_quantile") {
        near(student_quantile(row[0], row[1]) / row[2], 1.0, &format!("quantile {row:?}"));
    }
    for row in rows("student_tail") {
        near(student_tail(row[0], row[1]), row[2], &format!("tail {row:?}"));
    }
    for row in rows("normal_tail") {
        near(normal_tail(row[0]), row[1], &format!("normal {row:?}"));
    }
    for row in rows("fair_coin_at_most") {
        near(fair_coin_at_most(row[0] as u64, row[1] as u64), row[2], &format!("coin {row:?}"));
    }
    near(student_quantile(0.975, f64::INFINITY), 1.959_963_984_540_054, "normal quantile");
    let p_values = floats(&vectors["p_values"]);
    for (found, name) in [(holm(&p_values), "holm"), (benjamini_hochberg(&p_values), "benjamini_hochberg")] {
        for (found, expected) in found.into_iter().zip(floats(&vectors[name])) {
            near(found, expected, name);
        }
    }
    assert!(holm(&[]).is_empty());
}

#[test]
fn series_are_described_as_numpy_and_scipy_describe_them() {
    let vectors = vectors();
    for (name, series) in vectors["series"].as_object().unwrap() {
        let (series, described) = (floats(series), &vectors["described"][name]);
        let mut sorted = series.clone();
        sorted.sort_by(f64::total_cmp);
        for (p, expected) in described["quantiles"].as_object().unwrap() {
            near(quantile(&sorted, p.parse().unwrap()).unwrap(), expected.as_f64().unwrap(), name);
        }
        let expected = described["median_absolute_deviation"].as_f64().unwrap();
        near(median_absolute_deviation(&series).unwrap(), expected, name);
        near(geometric_mean(&series).unwrap(), described["geometric_mean"].as_f64().unwrap(), name);
        if described["sign_autocorrelation"].is_array() {
            for (lag, expected) in floats(&described["sign_autocorrelation"]).into_iter().enumerate() {
                near(sign_autocorrelation(&series, lag + 1), expected, name);
            }
        }
        let estimate = median_estimate(&series).unwrap();
        let (interval, expected) = (estimate.log_interval(CONFIDENCE), &described["median"]);
        near(estimate.log, expected["log"].as_f64().unwrap(), name);
        near(interval.low, expected["low"].as_f64().unwrap(), name);
        near(interval.high, expected["high"].as_f64().unwrap(), name);
        near(estimate.degrees, expected["degrees"].as_f64().unwrap_or(f64::INFINITY), name);
    }
}

#[test]
fn leases_floors_and_detectable_differences_have_the_values_of_scipy() {
    let vectors = vectors();
    let exact = |log: f64| Estimate { log, below: 1e-4, above: 1e-4, degrees: 9.0, open: 0.0 };
    for (name, expected) in vectors["leases"].as_object().unwrap() {
        let leases: Vec<Lease<usize>> = floats(&expected["logs"])
            .into_iter()
            .enumerate()
            .map(|(board, log)| Lease { board, estimate: exact(log) })
            .collect();
        let (estimate, reach) = over_leases(&leases, 7).unwrap();
        assert_eq!(reach, Reach::Boards);
        near(estimate.log, expected["mean"].as_f64().unwrap(), name);
        let width = |low: f64, high: f64| high - low;
        let interval = estimate.log_interval(CONFIDENCE);
        let wanted = width(expected["low"].as_f64().unwrap(), expected["high"].as_f64().unwrap());
        // 2000 resamples know a standard error to 1.6 %; five times that.
        let found = width(interval.low, interval.high) / wanted;
        assert!((found - 1.0).abs() < 0.08, "{name}: {found}");
        assert_eq!(over_leases(&leases, 7), over_leases(&leases, 7), "seeded");
        assert_eq!(over_leases(&leases[..2], 7), None, "two leases claim nothing beyond themselves");
    }
    let floor = NoiseFloor::of(&floats(&vectors["floor"]["logs"])).unwrap();
    near(floor.scatter, vectors["floor"]["scatter"].as_f64().unwrap(), "scatter");
    near(floor.bound(), vectors["floor"]["bound"].as_f64().unwrap(), "bound");
    assert_eq!(NoiseFloor::of(&[]), None);
    let measured = Estimate { below: 0.01, above: 0.01, ..exact(0.0) };
    near(measured.detectable(0.8), vectors["detectable"].as_f64().unwrap(), "detectable");
}

#[test]
fn a_claim_needs_the_family_the_floor_and_more_than_one_lease() {
    let lease = |log: f64| Lease {
        board: 0,
        estimate: Estimate { log, below: 0.001, above: 0.001, degrees: 9.0, open: 0.0 },
    };
    let one = |log: f64, floor: Option<&NoiseFloor>| conclude(&[lease(log)], floor, 1).unwrap();
    let floor = NoiseFloor::of(&[0.004, -0.003, 0.005, -0.004, 0.004, 0.003, -0.005, 0.004]).unwrap();
    let said = |log: f64, floor: Option<&NoiseFloor>| claims(&[one(log, floor)], floor)[0];
    assert_eq!(said(0.008, None), Claim::OneLeaseOnly);
    assert_eq!(said(0.008, Some(&floor)), Claim::NoDifference, "a copy of the baseline comes out so far too");
    assert_eq!(said(0.05, Some(&floor)), Claim::Faster);
    assert_eq!(said(-0.05, Some(&floor)), Claim::Slower);
    assert_eq!(said(0.0005, None), Claim::NoDifference);
    let three = conclude(&[lease(0.05), lease(0.051), lease(0.0495)], None, 1).unwrap();
    assert_eq!((three.reach, three.leases, three.boards), (Reach::Leases, 3, 1));
    assert_eq!(claims(&[three], None), [Claim::Faster]);
    // Alone it would do; beside nineteen others the same distance is luck.
    let p = 0.004;
    let many: Vec<Conclusion> = (0..20)
        .map(|place| {
            let log = if place == 0 { 0.001 * student_quantile(1.0 - p / 2.0, 9.0) } else { 0.0 };
            Conclusion { reach: Reach::Leases, ..one(log, None) }
        })
        .collect();
    assert_eq!(claims(&many[..1], None), [Claim::Faster]);
    assert_eq!(claims(&many, None)[0], Claim::NoDifference);
}

#[test]
fn simulated_intervals_cover_and_copies_are_not_called_faster() {
    use simulation::{
        Noise, Plan, Way, coverage_of_leases, coverage_of_one_lease, leagues_of_copies, leagues_won,
    };
    // A small version of `muster bench coverage`: five standard errors of so many trials are allowed.
    let within = |count: simulation::Count| {
        let share = count.share();
        assert!((0.95 - 0.08..=1.0).contains(&share), "{count:?}");
    };
    within(coverage_of_one_lease(Noise::REALISTIC, 100, Way::Batches, 150, 1));
    within(coverage_of_one_lease(Noise::INDEPENDENT, 20, Way::Batches, 150, 1));
    within(coverage_of_leases(Noise::REALISTIC, (3, 1), 20, 150, 2));
    within(coverage_of_leases(Noise::REALISTIC, (6, 3), 20, 80, 2));
    let plan = Plan { pairs: 20, leases: 3, boards: 1, copies: 0 };
    assert!(leagues_won(Noise::REALISTIC, plan, 20, 3).share() >= 0.95);
    let [faster, _] = leagues_of_copies(Noise::REALISTIC, plan, 20, 4);
    assert!(faster.hits <= 1, "{faster:?}");
    // And the simulation can fail: what the first rankings had covers too seldom where neighbours are alike.
    let old = coverage_of_one_lease(Noise::STICKY, 50, Way::Pairs, 20, 1);
    assert!(old.share() <= 0.9, "{old:?}");
}
