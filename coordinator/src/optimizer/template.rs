//! Templated candidates: a source and a launch with parameters, and the values that each may take.
//!
//! ```toml
//! file = "tiles.cu"                 # what a candidate's sidecar says, with `${name}` where a parameter stands
//! name = "tiles"
//! licence = "Apache-2.0 OR MIT"
//!
//! [parameters]
//! rows = [1, 2, 4]
//! columns = [4, 8]
//!
//! [[limit]]                         # integer expressions over the parameters; a point beyond one is left out
//! value = "rows * columns"
//! at_most = 16
//!
//! [launch]
//! grid = ["ceil_div(n, 8 * ${columns})", "ceil_div(m, 4 * ${rows})"]
//! block = [8, 4]
//! ```
//! The source has the same placeholders. Each parameter must stand somewhere, or two points would be one program.

use fleet_config::domain::{Expression, Scope};
use fleet_config::refusal::Refusal;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

/// Most points of a space: what a fleet could measure in a year, and little memory.
pub const POINTS_MAX: usize = 100_000;
/// Most parameters of a template.
const PARAMETERS_MAX: usize = 32;
/// Longest value in bytes.
const VALUE_MAX: usize = 200;
/// Longest name of a candidate that is made of its point, in bytes; as long as names may be.
const NAME_MAX: usize = 120;

/// A value for each parameter, by name, as it is written into the source.
pub type Point = BTreeMap<String, String>;

/// A template without its source.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    place: String,
    /// The source file beside the template.
    pub file: String,
    /// What is left of the file: the sidecar of each candidate, with placeholders.
    sidecar: Table,
    /// Every point that is within the limits, in order of names and values.
    points: Vec<Point>,
    parameters: BTreeSet<String>,
}

/// One candidate of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    pub source: String,
    /// TOML; names no file, since it stands beside its source.
    pub sidecar: String,
    pub name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitText {
    value: String,
    at_most: i64,
}

impl Template {
    /// Reads a template. `file` is the name that refusals tell. Errors: `template/syntax`, `template/parameters`,
    /// `template/limit`, `template/space`.
    pub fn parse(text: &str, file: &str) -> Result<Self, Refusal> {
        let refuse = |code: &'static str, cause: String| {
            Refusal::new(code, file, cause, "mend the template (docs/CAMPAIGNS.md has one)")
        };
        let mut sidecar: Table = text
            .parse()
            .map_err(|error: toml::de::Error| refuse("template/syntax", error.message().to_owned()))?;
        let Some(Value::Table(parameters)) = sidecar.remove("parameters") else {
            return Err(refuse("template/parameters", "a table `parameters` is missing".to_owned()));
        };
        let source = match sidecar.remove("file") {
            Some(Value::String(source)) if !source.is_empty() => source,
            Some(_) | None => {
                return Err(refuse("template/syntax", "`file` with the source is missing".to_owned()));
            }
        };
        let limits = match sidecar.remove("limit") {
            None => Vec::new(),
            Some(limits) => Vec::<LimitText>::deserialize(limits)
                .map_err(|error| refuse("template/limit", error.message().to_owned()))?,
        };
        let values = values(parameters).map_err(|cause| refuse("template/parameters", cause))?;
        let points = points(&values).map_err(|cause| refuse("template/space", cause))?;
        let points = within(points, &limits).map_err(|cause| refuse("template/limit", cause))?;
        if points.is_empty() {
            return Err(refuse("template/space", "no point is within the limits".to_owned()));
        }
        let parameters = values.into_keys().collect();
        Ok(Self { place: file.to_owned(), file: source, sidecar, points, parameters })
    }

    /// The points of its space.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Whether every placeholder of `source` and launch names a parameter and every parameter stands somewhere. Error:
    /// `template/placeholder`.
    pub fn check(&self, source: &str) -> Result<(), Refusal> {
        let mut found = BTreeSet::new();
        placeholders(source, &mut found);
        walk(&Value::Table(self.sidecar.clone()), &mut |text| placeholders(text, &mut found));
        let refuse = |cause: String| {
            let next = "give each `${name}` a list in [parameters], and use each of them";
            Refusal::new("template/placeholder", &self.place, cause, next)
        };
        if let Some(unknown) = found.difference(&self.parameters).next() {
            return Err(refuse(format!("`${{{unknown}}}` names no parameter")));
        }
        match self.parameters.difference(&found).next() {
            Some(unused) => Err(refuse(format!("the parameter `{unused}` stands nowhere"))),
            None => Ok(()),
        }
    }

    /// The candidate at `point` of the template with this source.
    pub fn render(&self, source: &str, point: &Point) -> Rendered {
        let mut sidecar = self.sidecar.clone();
        for (_, value) in &mut sidecar {
            substitute(value, point);
        }
        let stem = match sidecar.get("name") {
            Some(Value::String(name)) => name.clone(),
            Some(_) | None => self.file.trim_end_matches(".cu").to_owned(),
        };
        let pairs: Vec<String> = point.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut name = format!("{stem} {}", pairs.join(" "));
        while name.len() > NAME_MAX {
            name.pop();
        }
        sidecar.insert("name".to_owned(), Value::String(name.clone()));
        Rendered { source: filled(source, point), sidecar: sidecar.to_string(), name }
    }
}

/// The values of each parameter as text.
fn values(parameters: Table) -> Result<BTreeMap<String, Vec<String>>, String> {
    if parameters.is_empty() || parameters.len() > PARAMETERS_MAX {
        return Err(format!("1 to {PARAMETERS_MAX} parameters are expected"));
    }
    let mut values = BTreeMap::new();
    for (name, list) in parameters {
        let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            && name.starts_with(|c: char| c.is_ascii_lowercase());
        if !is_name {
            return Err(format!("`{name}` is no name in lower case"));
        }
        let Value::Array(list) = list else { return Err(format!("`{name}` is no list of values")) };
        let mut texts = Vec::new();
        for value in list {
            let text = match value {
                Value::Integer(number) => number.to_string(),
                Value::String(text) => text,
                Value::Float(_)
                | Value::Boolean(_)
                | Value::Datetime(_)
                | Value::Array(_)
                | Value::Table(_) => {
                    return Err(format!("a value of `{name}` is neither an integer nor a text"));
                }
            };
            if text.len() > VALUE_MAX || text.chars().any(char::is_control) || texts.contains(&text) {
                return Err(format!("a value of `{name}` stands twice, is too long or holds controls"));
            }
            texts.push(text);
        }
        if texts.is_empty() {
            return Err(format!("`{name}` has no value"));
        }
        values.insert(name, texts);
    }
    Ok(values)
}

/// The product of all values, the last name changing fastest.
fn points(values: &BTreeMap<String, Vec<String>>) -> Result<Vec<Point>, String> {
    let count = values.values().try_fold(1_usize, |count, list| count.checked_mul(list.len()));
    if count.is_none_or(|count| count > POINTS_MAX) {
        return Err(format!("more than {POINTS_MAX} points"));
    }
    let mut points = vec![Point::new()];
    for (name, list) in values {
        let extended = |point: &Point| -> Vec<Point> {
            let with = |value: &String| {
                let mut point = point.clone();
                point.insert(name.clone(), value.clone());
                point
            };
            list.iter().map(with).collect()
        };
        points = points.iter().flat_map(extended).collect();
    }
    Ok(points)
}

/// The points that no limit leaves out. Values that are no integers have no place in limits.
fn within(points: Vec<Point>, limits: &[LimitText]) -> Result<Vec<Point>, String> {
    let parsed: Result<Vec<(Expression, i64)>, String> = limits
        .iter()
        .map(|limit| {
            Ok((limit.value.parse::<Expression>().map_err(|error| error.to_string())?, limit.at_most))
        })
        .collect();
    let parsed: Vec<(Expression, i64)> = parsed?;
    let mut kept = Vec::with_capacity(points.len());
    for point in points {
        let numbers = point.iter().filter_map(|(name, value)| Some((name.clone(), value.parse().ok()?)));
        let scope: Scope = numbers.collect();
        let mut is_within = true;
        for (expression, at_most) in &parsed {
            is_within &= expression.evaluate(&scope).map_err(|error| error.to_string())? <= *at_most;
        }
        if is_within {
            kept.push(point);
        }
    }
    Ok(kept)
}

/// Names between `${` and `}`.
fn placeholders(text: &str, found: &mut BTreeSet<String>) {
    let after = text.split("${").skip(1);
    found.extend(after.filter_map(|rest| Some(rest.split_once('}')?.0.to_owned())));
}

fn filled(text: &str, point: &Point) -> String {
    let one = |text: String, (name, value): (&String, &String)| text.replace(&format!("${{{name}}}"), value);
    point.iter().fold(text.to_owned(), one)
}

fn substitute(value: &mut Value, point: &Point) {
    match value {
        Value::String(text) => *text = filled(text, point),
        Value::Array(list) => list.iter_mut().for_each(|value| substitute(value, point)),
        Value::Table(table) => {
            for (_, value) in table {
                substitute(value, point);
            }
        }
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
}

fn walk(value: &Value, see: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => see(text),
        Value::Array(list) => list.iter().for_each(|value| walk(value, see)),
        Value::Table(table) => table.values().for_each(|value| walk(value, see)),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_config::config::parse_candidates;

    const TEXT: &str = r#"
file = "tiles.cu"
name = "tiles"

[parameters]
rows = [1, 2, 4]
columns = [4, 8]
kind = ["float", "float4"]

[[limit]]
value = "rows * columns"
at_most = 16

[launch]
grid = ["ceil_div(n, ${columns})", "ceil_div(m, ${rows})"]
block = [8, 4]
"#;
    const SOURCE: &str = "#define ROWS ${rows}\n${kind} tile[${rows}][${columns}];\n";

    #[test]
    fn points_are_the_product_within_the_limits_in_a_fixed_order() {
        let template = Template::parse(TEXT, "tiles.toml").unwrap();
        assert_eq!(template.points().len(), 2 * (3 + 2), "4 rows of 8 columns are too many");
        let first: Vec<(&str, &str)> =
            template.points()[0].iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(first, [("columns", "4"), ("kind", "float"), ("rows", "1")]);
        assert_eq!(template.points()[1]["rows"], "2", "the last name changes fastest");
        template.check(SOURCE).unwrap();
    }

    #[test]
    fn a_point_becomes_a_source_and_a_sidecar_that_the_submission_reads() {
        let template = Template::parse(TEXT, "tiles.toml").unwrap();
        let rendered = template.render(SOURCE, &template.points()[1]);
        assert_eq!(rendered.source, "#define ROWS 2\nfloat tile[2][4];\n");
        assert_eq!(rendered.name, "tiles columns=4 kind=float rows=2");
        let drafts = parse_candidates(&rendered.sidecar, "source.toml", "matmul").unwrap();
        let draft = &drafts[0];
        assert_eq!(draft.name.as_deref(), Some(rendered.name.as_str()));
        let plan = serde_json::to_string(&draft.plan).unwrap();
        assert!(plan.contains("ceil_div(n, 4)") && plan.contains("ceil_div(m, 2)"), "{plan}");
        assert!(!rendered.sidecar.contains("parameters"), "{}", rendered.sidecar);
    }

    #[test]
    fn what_makes_no_space_is_refused_with_its_code() {
        let with = |from: &str, to: &str| TEXT.replace(from, to);
        for (text, code) in [
            ("file = ".to_owned(), "template/syntax"),
            (with("file = \"tiles.cu\"", ""), "template/syntax"),
            (with("[parameters]", "[others]"), "template/parameters"),
            (with("[1, 2, 4]", "[]"), "template/parameters"),
            (with("[1, 2, 4]", "[1, 1]"), "template/parameters"),
            (with("[1, 2, 4]", "[1.5]"), "template/parameters"),
            (with("rows = [1", "Rows = [1"), "template/parameters"),
            (with("rows * columns\"", "rows * depth\""), "template/limit"),
            (with("rows * columns\"", "kind\""), "template/limit"),
            (with("at_most = 16", "at_least = 16"), "template/limit"),
            (with("at_most = 16", "at_most = 1"), "template/space"),
        ] {
            assert_eq!(Template::parse(&text, "t.toml").unwrap_err().code, code, "{text}");
        }
        let list: Vec<String> = (0..400).map(|n| n.to_string()).collect();
        let many = with("[1, 2, 4]", &format!("[{}]", list.join(",")))
            .replace("[4, 8]", &format!("[{}]", list.join(",")));
        assert_eq!(Template::parse(&many, "t.toml").unwrap_err().code, "template/space");
        let template = Template::parse(TEXT, "t.toml").unwrap();
        for source in ["${rows} ${columns}", "${rows} ${columns} ${kind} ${depth}"] {
            assert_eq!(template.check(source).unwrap_err().code, "template/placeholder", "{source}");
        }
    }
}
