//! How far one source, or one family of variants, carries over the device classes of a matrix.

use super::matrix::{Cell, Column, Matrix, Row};
use crate::stats;
use fleet_config::domain::{
    Architecture, CandidateId, ClassId, DeviceKind, FamilyId, PartsPerBillion, TaskId,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What an efficiency is a share of.
pub const DENOMINATOR: &str = "application efficiency: speed-up over the baseline ÷ the best speed-up of any valid candidate in the same class";

/// The scores of one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Portability {
    pub task: TaskId,
    pub task_name: String,
    pub as_of: u64,
    /// Always [`DENOMINATOR`].
    pub denominator: String,
    /// The classes that the scores are over.
    pub targets: Vec<Target>,
    /// Classes with times that are not among them: another of the same device and architecture has more valid candidates.
    pub left_aside: Vec<ClassId>,
    /// Single sources, then families; the most portable first.
    pub rows: Vec<Score>,
    pub notice: String,
}

/// One class, and what is best on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    pub device_kind: DeviceKind,
    pub architecture: Architecture,
    pub device_model: String,
    pub policy_name: String,
    pub class: ClassId,
    pub best: String,
    pub best_speed_up: PartsPerBillion,
}

/// Whether a row is one source or takes the best of several on each target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Source,
    Family,
}

/// How far one carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    pub unit: Unit,
    pub name: String,
    pub candidate: Option<CandidateId>,
    pub family: Option<FamilyId>,
    /// Harmonic mean of the efficiencies; 0 where a target has none.
    pub portability: PartsPerBillion,
    /// The same over those targets that it is valid on: no measure of portability where that is not all of them.
    pub where_valid: Option<PartsPerBillion>,
    pub valid_on: u64,
    pub of: u64,
    /// The smallest efficiency among valid targets, and where.
    pub worst: Option<PartsPerBillion>,
    pub worst_target: Option<ClassId>,
    /// Nothing of its unit is as efficient everywhere and more so somewhere.
    pub is_on_front: bool,
    /// One for each target.
    pub efficiencies: Vec<Option<PartsPerBillion>>,
}

/// Scores every row of `matrix` over its classes with times.
pub fn portability(matrix: &Matrix) -> Portability {
    let (chosen, left_aside) = targets_of(matrix);
    let speed_up = |row: &Row, place: usize| match row.cells.get(place) {
        Some(Cell::Valid(worth)) => Some(worth.speed_up.ratio()),
        Some(Cell::Invalid(_) | Cell::Compiled { .. } | Cell::Untried) | None => None,
    };
    let mut targets = Vec::new();
    let mut best = Vec::new();
    for (place, column, class) in &chosen {
        let fastest = matrix
            .rows
            .iter()
            .filter_map(|row| Some((speed_up(row, *place)?, row)))
            .max_by(|one, other| one.0.total_cmp(&other.0));
        let Some((most, row)) = fastest else { continue };
        best.push((*place, most));
        targets.push(Target {
            device_kind: column.device_kind,
            architecture: column.architecture.clone(),
            device_model: column.device_model.clone(),
            policy_name: column.policy_name.clone(),
            class: *class,
            best: row.name.clone(),
            best_speed_up: stats::parts_per_billion(most),
        });
    }
    let efficiencies = |row: &Row| -> Vec<Option<f64>> {
        best.iter().map(|(place, most)| Some(speed_up(row, *place)? / most)).collect()
    };
    let sources: Vec<(Naming, Vec<Option<f64>>)> = matrix
        .rows
        .iter()
        .map(|row| (Naming::Source(row.name.clone(), row.candidate), efficiencies(row)))
        .collect();
    let mut families: BTreeMap<FamilyId, Vec<Vec<Option<f64>>>> = BTreeMap::new();
    for row in &matrix.rows {
        if let Some(family) = row.family {
            families.entry(family).or_default().push(efficiencies(row));
        }
    }
    let families: Vec<(Naming, Vec<Option<f64>>)> =
        families.into_iter().map(|(family, members)| (Naming::Family(family), best_of(&members))).collect();
    let mut rows = scored(&sources, &targets);
    rows.extend(scored(&families, &targets));
    Portability {
        task: matrix.task,
        task_name: matrix.task_name.clone(),
        as_of: matrix.as_of,
        denominator: DENOMINATOR.to_owned(),
        targets,
        left_aside,
        rows,
        notice: matrix.notice.clone(),
    }
}

enum Naming {
    Source(String, Option<CandidateId>),
    Family(FamilyId),
}

/// One class for each device and architecture, the one with most valid candidates; and the others.
fn targets_of(matrix: &Matrix) -> (Vec<(usize, &Column, ClassId)>, Vec<ClassId>) {
    type Device<'a> = (DeviceKind, &'a Architecture, &'a str);
    let mut chosen: BTreeMap<Device<'_>, (usize, usize, ClassId)> = BTreeMap::new();
    let mut left_aside = Vec::new();
    for (place, column) in matrix.columns.iter().enumerate() {
        let Some(class) = column.class else { continue };
        let valid = |row: &&Row| matches!(row.cells.get(place), Some(Cell::Valid(_)));
        let count = matrix.rows.iter().filter(valid).count();
        if count == 0 {
            left_aside.push(class);
            continue;
        }
        let device = (column.device_kind, &column.architecture, column.device_model.as_str());
        match chosen.get(&device) {
            Some((most, _, _)) if *most >= count => left_aside.push(class),
            Some((_, _, other)) => {
                left_aside.push(*other);
                chosen.insert(device, (count, place, class));
            }
            None => {
                chosen.insert(device, (count, place, class));
            }
        }
    }
    let mut places: Vec<(usize, ClassId)> =
        chosen.values().map(|(_, place, class)| (*place, *class)).collect();
    places.sort_unstable();
    let with = |(place, class): (usize, ClassId)| Some((place, matrix.columns.get(place)?, class));
    (places.into_iter().filter_map(with).collect(), left_aside)
}

/// On each target the best of the members.
fn best_of(members: &[Vec<Option<f64>>]) -> Vec<Option<f64>> {
    let width = members.first().map_or(0, Vec::len);
    let best = |target: usize| {
        members.iter().filter_map(|member| member.get(target).copied().flatten()).max_by(f64::total_cmp)
    };
    (0..width).map(best).collect()
}

fn scored(rows: &[(Naming, Vec<Option<f64>>)], targets: &[Target]) -> Vec<Score> {
    let all: Vec<Vec<Option<f64>>> = rows.iter().map(|(_, efficiencies)| efficiencies.clone()).collect();
    let front = stats::pareto_front(&all);
    let mut scores: Vec<Score> = rows
        .iter()
        .zip(front)
        .map(|((naming, efficiencies), is_on_front)| {
            let valid: Vec<Option<f64>> = efficiencies.iter().filter(|one| one.is_some()).copied().collect();
            let worst = efficiencies.iter().zip(targets).filter_map(|(one, target)| Some(((*one)?, target)));
            let worst = worst.min_by(|one, other| one.0.total_cmp(&other.0));
            let (unit, name, candidate, family) = match naming {
                Naming::Source(name, candidate) => (Unit::Source, name.clone(), *candidate, None),
                Naming::Family(family) => (Unit::Family, family.short(), None, Some(*family)),
            };
            let portability = stats::performance_portability(efficiencies).unwrap_or(0.0);
            Score {
                unit,
                name,
                candidate,
                family,
                portability: stats::parts_per_billion(portability),
                where_valid: stats::performance_portability(&valid).map(stats::parts_per_billion),
                valid_on: valid.len() as u64,
                of: efficiencies.len() as u64,
                worst: worst.map(|(one, _)| stats::parts_per_billion(one)),
                worst_target: worst.map(|(_, target)| target.class),
                is_on_front,
                efficiencies: efficiencies.iter().map(|one| one.map(stats::parts_per_billion)).collect(),
            }
        })
        .collect();
    scores.sort_by(|one, other| {
        let key =
            |score: &Score| (std::cmp::Reverse((score.portability, score.valid_on)), score.name.clone());
        key(one).cmp(&key(other))
    });
    scores
}
