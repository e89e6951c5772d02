//! Which rows are asked for. Values of one field are alternatives; fields must all fit.

use super::row::Row;
use fleet_config::domain::Status;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Fewest digits that may stand for an id.
const PREFIX_DIGITS_MIN: usize = 8;

/// What is asked for; empty lists ask for everything.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// Words of kinds.
    pub kinds: Vec<String>,
    /// Names or ids, as for every field below that has both.
    pub tasks: Vec<String>,
    pub candidates: Vec<String>,
    /// Candidates whose provenance names this parent.
    pub parents: Vec<String>,
    pub agents: Vec<String>,
    pub submissions: Vec<String>,
    pub nodes: Vec<String>,
    /// Part of the device's model, of either case, or the device's whole id.
    pub devices: Vec<String>,
    /// Versions, or their beginnings up to a dot: `580` is every 580.
    pub drivers: Vec<String>,
    /// Architectures such as `nvidia:sm_90a`, or ids of comparability classes.
    pub classes: Vec<String>,
    pub policies: Vec<String>,
    pub statuses: Vec<Status>,
    /// From this moment on.
    pub since: Option<Moment>,
    /// Before this moment.
    pub until: Option<Moment>,
    pub metrics: Vec<MetricRange>,
}

/// Why a text asks for nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error("`{0}` is no moment; write 2026-11-30 or 2026-11-30T12:00:00Z")]
    Moment(String),
    #[error(
        "`{0}` is no range; write NAME=LOW..HIGH with one bound or both, NAME being speedup, candidate_ps, baseline_ps or resource.NAME"
    )]
    Metric(String),
}

/// A moment in UTC in the spelling of records, so that texts compare as times do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(String);

impl Moment {
    /// The moment that a record states; none where it states no time of that spelling. Fractions of seconds are cut.
    fn of_record(text: &str) -> Option<Self> {
        let seconds = text.get(..19)?;
        let fraction = text.get(19..)?.strip_suffix('Z')?;
        let is_fraction =
            fraction.strip_prefix('.').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        ((fraction.is_empty() || is_fraction) && is_time(seconds)).then(|| Self(seconds.to_owned()))
    }
}

impl FromStr for Moment {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let whole = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
        Self::of_record(&whole).ok_or_else(|| FilterError::Moment(text.chars().take(40).collect()))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}Z", self.0)
    }
}

/// Whether 19 bytes have the shape of `2026-11-30T12:00:00`, with parts that a calendar has.
fn is_time(text: &str) -> bool {
    let shape = "dddd-dd-ddTdd:dd:dd";
    let fits = |(found, wanted): (u8, u8)| match wanted {
        b'd' => found.is_ascii_digit(),
        other => found == other,
    };
    let part = |range: std::ops::Range<usize>| text.get(range).and_then(|part| part.parse::<u8>().ok());
    let within = |range: std::ops::Range<usize>, least: u8, most: u8| {
        part(range).is_some_and(|number| (least..=most).contains(&number))
    };
    text.len() == shape.len()
        && text.bytes().zip(shape.bytes()).all(fits)
        && within(5..7, 1, 12)
        && within(8..10, 1, 31)
        && within(11..13, 0, 23)
        && within(14..16, 0, 59)
        && within(17..19, 0, 60)
}

/// A number of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Metric {
    /// Geometric mean of the ratios to the baseline; 1.5 is half as fast again.
    Speedup,
    /// Median time of the candidate in picoseconds, in any case.
    CandidateTime,
    /// The same of the baseline.
    BaselineTime,
    /// What the compiler said, such as `resource.registers`.
    Resource(String),
}

/// A metric with bounds, both included; at least one is there.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricRange {
    pub metric: Metric,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl MetricRange {
    fn holds(&self, number: f64) -> bool {
        self.low.is_none_or(|low| number >= low) && self.high.is_none_or(|high| number <= high)
    }

    fn admits(&self, row: &Row) -> bool {
        let any_case =
            |time: fn(&super::CaseRow) -> u64| row.cases.iter().any(|case| self.holds(time(case) as f64));
        match &self.metric {
            Metric::Speedup => row.speedup.is_some_and(|speedup| self.holds(speedup.0 as f64 * 1e-9)),
            Metric::CandidateTime => any_case(|case| case.candidate_median.0),
            Metric::BaselineTime => any_case(|case| case.baseline_median.0),
            Metric::Resource(name) => row.resources.get(name).is_some_and(|count| self.holds(*count as f64)),
        }
    }
}

impl FromStr for MetricRange {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let bad = || FilterError::Metric(text.chars().take(80).collect());
        let (name, range) = text.split_once('=').ok_or_else(bad)?;
        let metric = match (name, name.strip_prefix("resource.")) {
            ("speedup", _) => Metric::Speedup,
            ("candidate_ps", _) => Metric::CandidateTime,
            ("baseline_ps", _) => Metric::BaselineTime,
            (_, Some(resource)) if !resource.is_empty() => Metric::Resource(resource.to_owned()),
            (_, _) => return Err(bad()),
        };
        let (low, high) = range.split_once("..").ok_or_else(bad)?;
        let bound = |text: &str| match text {
            "" => Ok(None),
            text => text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Some).ok_or_else(bad),
        };
        let (low, high) = (bound(low)?, bound(high)?);
        let in_order = low.zip(high).is_none_or(|(low, high)| low <= high);
        if (low.is_none() && high.is_none()) || !in_order {
            return Err(bad());
        }
        Ok(Self { metric, low, high })
    }
}

impl Filter {
    /// Whether an entry may be asked for by what it says itself. `heard` takes each asked-for name that was met.
    pub(super) fn admits_entry(&self, row: &Row, heard: &mut BTreeSet<String>) -> bool {
        let mut named = |wanted: &[String], id: Option<String>, name: Option<&str>| {
            let fits = |text: &&String| is_named(text, id.as_deref(), name);
            let met = wanted.iter().filter(fits).cloned().collect::<Vec<_>>();
            let any = wanted.is_empty() || !met.is_empty();
            heard.extend(met);
            any
        };
        let text = |id: &dyn fmt::Display| Some(id.to_string());
        let task = named(&self.tasks, row.task.and_then(|id| text(&id)), row.task_name.as_deref());
        let node = named(&self.nodes, row.node.and_then(|id| text(&id)), row.node_name.as_deref());
        let policy = named(&self.policies, row.policy.and_then(|id| text(&id)), row.policy_name.as_deref());
        let class = named(&self.classes, row.class.and_then(|id| text(&id)), row.architecture.as_deref());
        let submission = named(&self.submissions, row.submission.and_then(|id| text(&id)), None);
        let kind = self.kinds.is_empty() || self.kinds.contains(&row.kind);
        let status =
            self.statuses.is_empty() || row.status.is_some_and(|status| self.statuses.contains(&status));
        let metrics = self.metrics.iter().all(|range| range.admits(row));
        task && node && policy && class && submission && kind && status && metrics && self.admits_time(row)
    }

    fn admits_time(&self, row: &Row) -> bool {
        if self.since.is_none() && self.until.is_none() {
            return true;
        }
        let Some(moment) = row.time.as_deref().and_then(Moment::of_record) else { return false };
        self.since.as_ref().is_none_or(|since| moment >= *since)
            && self.until.as_ref().is_none_or(|until| moment < *until)
    }

    /// The same by what its documents say.
    pub(super) fn admits_documents(&self, row: &Row, heard: &mut BTreeSet<String>) -> bool {
        let mut named = |wanted: &[String], id: Option<String>, name: Option<&str>| {
            let met: Vec<String> =
                wanted.iter().filter(|text| is_named(text, id.as_deref(), name)).cloned().collect();
            let any = wanted.is_empty() || !met.is_empty();
            heard.extend(met);
            any
        };
        let candidate =
            named(&self.candidates, row.candidate.map(|id| id.to_string()), row.candidate_name.as_deref());
        let parent = named(&self.parents, row.parent.map(|id| id.to_string()), None);
        let agent = named(&self.agents, None, row.agent.as_deref());
        let device = self.devices.is_empty() || self.devices.iter().any(|wanted| is_device(wanted, row));
        let driver = self.drivers.is_empty()
            || self.drivers.iter().any(|wanted| row.driver.as_deref().is_some_and(|v| is_version(wanted, v)));
        candidate && parent && agent && device && driver
    }

    /// Every name and id that was asked for.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        let Self { tasks, candidates, parents, agents, submissions, nodes, classes, policies, .. } = self;
        [tasks, candidates, parents, agents, submissions, nodes, classes, policies].into_iter().flatten()
    }
}

fn is_named(text: &str, id: Option<&str>, name: Option<&str>) -> bool {
    name == Some(text) || (text.len() >= PREFIX_DIGITS_MIN && id.is_some_and(|id| id.starts_with(text)))
}

fn is_device(wanted: &str, row: &Row) -> bool {
    let in_model = row
        .device_model
        .as_ref()
        .is_some_and(|model| !wanted.is_empty() && model.to_lowercase().contains(&wanted.to_lowercase()));
    in_model || row.device.as_deref() == Some(wanted)
}

fn is_version(wanted: &str, version: &str) -> bool {
    version.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
