//! Numbers that differ between configs, as dimensions of one task.

use std::collections::BTreeSet;

/// Integers beyond this have no canonical form of their own and are written as two.
const EXACT_MAX: i64 = 1 << 53;
/// What the two halves of a wide integer are split at.
const HALF: i64 = 1 << 31;

/// Names that expressions take for functions.
const FUNCTIONS: [&str; 4] = ["ceil_div", "round_up", "min", "max"];

/// The dimensions found so far, each with its value in every config.
#[derive(Debug, Default)]
pub(super) struct Dimensions {
    pub list: Vec<(String, Vec<i64>)>,
    taken: BTreeSet<String>,
}

impl Dimensions {
    /// The expression whose value in each config is that of `values`: a number where all agree, else a dimension, known
    /// or new. `hint` names a new one.
    pub(super) fn expression(&mut self, hint: &str, values: &[i64]) -> String {
        match values.first() {
            Some(first) if values.iter().all(|value| value == first) => first.to_string(),
            Some(_) => self.named(hint, values),
            None => "0".to_owned(),
        }
    }

    /// The same; a dimension also where all agree.
    pub(super) fn named(&mut self, hint: &str, values: &[i64]) -> String {
        if let Some((name, _)) = self.list.iter().find(|(_, known)| known == values) {
            return name.clone();
        }
        let smallest = values.iter().copied().min().unwrap_or(1);
        let largest = values.iter().copied().max().unwrap_or(1);
        if smallest < -EXACT_MAX || largest > EXACT_MAX {
            let high: Vec<i64> = values.iter().map(|value| value.div_euclid(HALF)).collect();
            let low: Vec<i64> = values.iter().map(|value| value.rem_euclid(HALF)).collect();
            let high = self.expression(&format!("{hint}_high"), &high);
            let low = self.expression(&format!("{hint}_low"), &low);
            return format!("({high}) * {HALF} + ({low})");
        }
        if smallest >= 1 {
            return self.add(hint, values.to_vec());
        }
        // Dimensions are positive: what is not is written as one that is shifted.
        let shift = 1 - smallest;
        let shifted: Vec<i64> = values.iter().map(|value| value + shift).collect();
        let name = match self.list.iter().find(|(_, known)| *known == shifted) {
            Some((name, _)) => name.clone(),
            None => self.add(&format!("{hint}_shifted"), shifted),
        };
        format!("{name} - {shift}")
    }

    fn add(&mut self, hint: &str, values: Vec<i64>) -> String {
        let legal = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
        let mut name: String = hint.chars().take(40).map(legal).collect();
        if !name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            || FUNCTIONS.contains(&name.as_str())
        {
            name.insert_str(0, "d_");
        }
        let base = name.clone();
        for number in 2_u32.. {
            if self.taken.insert(name.clone()) {
                break;
            }
            name = format!("{base}_{number}");
        }
        self.list.push((name.clone(), values));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Expression, Scope};

    #[test]
    fn every_number_comes_back_out_of_its_expression() {
        let mut dimensions = Dimensions::default();
        let columns: [&[i64]; 8] = [
            &[5, 5, 5],
            &[1, 2, 3],
            &[1, 2, 3],
            &[0, 98_304, 0],
            &[-7, 3, 0],
            &[i64::MIN, i64::MAX, 0],
            &[1 << 60, 5, -1],
            &[0, 0, 0],
        ];
        let texts: Vec<String> = columns
            .iter()
            .zip(["a", "N", "min", "9x", "neg", "wide", "größe", "z"])
            .map(|(v, h)| dimensions.expression(h, v))
            .collect();
        assert_eq!((texts[0].as_str(), texts[1].as_str(), texts[2].as_str()), ("5", "n", "n"));
        assert!(
            dimensions
                .list
                .iter()
                .all(|(_, values)| values.iter().all(|value| *value > 0 && *value <= EXACT_MAX))
        );
        for config in 0..3 {
            let scope: Scope =
                dimensions.list.iter().map(|(name, values)| (name.clone(), values[config])).collect();
            for (text, values) in texts.iter().zip(columns) {
                let expression: Expression = text.parse().unwrap();
                assert_eq!(expression.evaluate(&scope), Ok(values[config]), "{text}");
            }
        }
    }
}
