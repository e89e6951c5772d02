//! The text of a task file for a case, and of a candidate's sidecar.

use super::dimension::Dimensions;
use super::read::{Argument, ArgumentKind, CaseFolder, Config, Geometry, Launches, Start, StartValue};
use super::signature::signature;
use super::translate::{Column, Kind, bytes, count, task_name};
use crate::config::Files;
use crate::domain::{Decimal, ElementType, Fit, Input, Role, Seed, Special, SpecialValue};
use crate::generator;
use crate::refusal::Refusal;

/// Memory that a task asks for at least: the default of task files.
const MEMORY_MIN: u64 = 1 << 30;
/// Most memory that a task may ask for: the limit of task files.
const MEMORY_MAX: u64 = 1 << 40;
/// Room for scratch and alignment beside the buffers of the largest config.
const MEMORY_SLACK: u64 = 1 << 20;
/// Time of a whole attempt: so many launches that use up their limit, between two minutes and an hour.
const RUN_LAUNCHES: u64 = 12;
const RUN_MS: [u64; 2] = [120_000, 3_600_000];
/// Integers beyond this have no canonical form: such a draw becomes a file.
const EXACT_MAX: u64 = 1 << 53;
/// Largest input file that is made, in bytes.
const FILE_MAX: u64 = 1 << 30;

/// What was written.
pub(super) struct Written {
    pub task: String,
    /// The line `launch = …` of a sidecar.
    pub launch: String,
    /// Input files by path.
    pub data: Files,
}

/// Writes `case` down; its arguments are `columns`, its configs become `kinds`, `reference` is the text of the source.
pub(super) fn write(
    case: &CaseFolder,
    columns: &[Column<'_>],
    kinds: &[Kind],
    reference: &str,
) -> Result<Written, Refusal> {
    let mut writer = Writer { case, columns, dimensions: Dimensions::default(), data: Files::new() };
    // All numbers are named before the first line that lists the names.
    let params = writer.params();
    let baseline = writer.launch("reference", |launches| &launches.reference);
    let launch = writer.launch("candidate", |launches| &launches.candidate);
    let (shared, own) = writer.inputs()?;
    let mut task = writer.head(reference);
    task.push_str(&params);
    task.push_str("\n[inputs]\n");
    for input in shared {
        task.push_str(&format!("{input}\n"));
    }
    task.push_str(&writer.cases(kinds, &own));
    task.push_str(&writer.tail(&baseline));
    Ok(Written { task, launch, data: writer.data })
}

struct Writer<'a> {
    case: &'a CaseFolder,
    columns: &'a [Column<'a>],
    dimensions: Dimensions,
    data: Files,
}

impl Writer<'_> {
    fn head(&self, reference: &str) -> String {
        let case = self.case;
        let arguments: Vec<_> = self.columns.iter().map(|column| (column.first(), column.role)).collect();
        let dims: Vec<String> = self.dimensions.list.iter().map(|(name, _)| quoted(name)).collect();
        format!(
            "# Made from a case folder by `muster task import case-folder`.\n\
             name = {}\nsummary = {}\nentry = {}\nsignature = {}\ndims = [{}]\n",
            quoted(&task_name(&case.name)),
            quoted(&format!("case {} ({})", case.name, case.kind)),
            quoted(&case.entry),
            quoted(&signature(&case.entry, &arguments, reference)),
            dims.join(", "),
        )
    }

    /// The parameters. Integers that name a size become dimensions, so that the task reads as people write them.
    fn params(&mut self) -> String {
        let columns = self.columns;
        let sides: Vec<Vec<Vec<i64>>> = columns.iter().map(sides).collect();
        let scalars: Vec<Option<Vec<i64>>> = columns.iter().map(integers).collect();
        let mut values: Vec<String> = Vec::new();
        for (column, scalar) in columns.iter().zip(&scalars) {
            let name = &column.first().name;
            values.push(match scalar {
                Some(scalar) if sides.iter().flatten().any(|side| side == scalar) => {
                    self.dimensions.named(name, scalar)
                }
                Some(scalar) => self.dimensions.expression(name, scalar),
                None => String::new(),
            });
        }
        let mut text = String::new();
        for ((column, sides), value) in columns.iter().zip(&sides).zip(values) {
            let Argument { name, element, kind } = column.first();
            let rest = match (kind, column.role) {
                (ArgumentKind::Buffer { .. }, role) => {
                    let shape: Vec<String> = sides
                        .iter()
                        .enumerate()
                        .map(|(at, side)| quoted(&self.side(&format!("{name}_{at}"), side)))
                        .collect();
                    let role = match role {
                        Some(Role::In) => "in",
                        Some(Role::Inout) => "inout",
                        Some(Role::Out) | None => "out",
                    };
                    format!("role = \"{role}\"\nshape = [{}]", shape.join(", "))
                }
                (ArgumentKind::Integer(_), _) => format!("value = {}", quoted(&value)),
                (ArgumentKind::Float(value), _) => format!("value = {}", real(*value)),
            };
            text.push_str(&format!("\n[[param]]\nname = {}\ntype = \"{element}\"\n{rest}\n", quoted(name)));
        }
        text
    }

    /// A side of a shape: a dimension that is known, else as any number.
    fn side(&mut self, hint: &str, values: &[i64]) -> String {
        match self.dimensions.list.iter().find(|(_, known)| known == values) {
            Some((name, _)) => name.clone(),
            None => self.dimensions.expression(hint, values),
        }
    }

    fn launch(&mut self, side: &str, of: impl Fn(&Launches) -> &Geometry) -> String {
        let geometries: Vec<&Geometry> =
            self.case.configs.iter().map(|config| of(&config.launches)).collect();
        let mut three = |what: &str, pick: &dyn Fn(&Geometry) -> [i64; 3]| {
            let axis = |(at, axis): (usize, &str)| {
                let values: Vec<i64> = geometries.iter().map(|geometry| pick(geometry)[at]).collect();
                quoted(&self.dimensions.expression(&format!("{side}_{what}_{axis}"), &values))
            };
            ["x", "y", "z"].into_iter().enumerate().map(axis).collect::<Vec<_>>().join(", ")
        };
        let grid = three("grid", &|geometry| geometry.grid);
        let block = three("block", &|geometry| geometry.block);
        let shared: Vec<i64> = geometries.iter().map(|geometry| geometry.shared_bytes).collect();
        let shared = quoted(&self.dimensions.expression(&format!("{side}_shared_bytes"), &shared));
        format!("launch = {{ grid = [{grid}], block = [{block}], shared_bytes = {shared} }}")
    }

    /// Lines of the inputs that every config shares, and those that each config has of its own.
    fn inputs(&mut self) -> Result<(Vec<String>, Vec<Vec<String>>), Refusal> {
        let configs = &self.case.configs;
        let (mut shared, mut own) = (Vec::new(), vec![Vec::new(); configs.len()]);
        for column in self.columns {
            let mut texts = Vec::new();
            for (argument, config) in column.arguments.iter().zip(configs) {
                texts.extend(self.input(argument, column.role, config)?);
            }
            let name = quoted(&column.first().name);
            let same = texts.windows(2).all(|pair| pair[0] == pair[1]);
            match (texts.first(), same) {
                (None, _) => {}
                // What a scalar is in every config stands with its parameter.
                (Some(_), true) if column.role.is_none() => {}
                (Some(text), true) => shared.push(format!("{name} = {text}")),
                (Some(_), false) => {
                    for (list, text) in own.iter_mut().zip(texts) {
                        list.push(format!("{name} = {text}"));
                    }
                }
            }
        }
        Ok((shared, own))
    }

    fn input(
        &mut self,
        argument: &Argument,
        role: Option<Role>,
        config: &Config,
    ) -> Result<Option<String>, Refusal> {
        match &argument.kind {
            ArgumentKind::Buffer { shape, role: _, start } if role != Some(Role::Out) => {
                let place = || format!("case.json: config `{}`, argument `{}`", config.name, argument.name);
                let refuse = |cause: String| Refusal::new("case/range", place(), cause, "Correct the draw.");
                match draw(argument.element, start, count(shape)).map_err(refuse)? {
                    Draw::Text(text) => Ok(Some(text)),
                    Draw::Bytes(bytes) => {
                        let path = format!("inputs/{:03}.bin", self.data.len());
                        let text = format!("{{ file = {} }}", quoted(&path));
                        self.data.insert(path, bytes);
                        Ok(Some(text))
                    }
                }
            }
            ArgumentKind::Float(value) => Ok(Some(format!("{{ constant = {} }}", real(*value)))),
            ArgumentKind::Buffer { .. } | ArgumentKind::Integer(_) => Ok(None),
        }
    }

    fn cases(&self, kinds: &[Kind], own: &[Vec<String>]) -> String {
        let mut text = String::new();
        for (at, (config, kind)) in self.case.configs.iter().zip(kinds).enumerate() {
            let (table, kind) = match kind {
                Kind::Timed => ("case", "performance"),
                Kind::Gating => ("case", "correctness"),
                Kind::Sealed => ("holdout.case", "correctness"),
            };
            let dims = self.dimensions.list.iter();
            let dims: Vec<String> = dims.map(|(name, values)| format!("{name} = {}", values[at])).collect();
            text.push_str(&format!(
                "\n[[{table}]]\nname = {}\nkind = \"{kind}\"\ndims = {{ {} }}\ninputs = {{ {} }}\n",
                quoted(&config.name),
                dims.join(", "),
                own[at].join(", ")
            ));
        }
        text
    }

    fn tail(&self, launch: &str) -> String {
        let case = self.case;
        let largest = case.configs.iter().map(bytes).max().unwrap_or(0);
        let memory =
            largest.saturating_add(largest / 4).saturating_add(MEMORY_SLACK).clamp(MEMORY_MIN, MEMORY_MAX);
        let run = case.launch_ms.saturating_mul(RUN_LAUNCHES).clamp(RUN_MS[0], RUN_MS[1]);
        let nan = if case.nan_equal { "equal" } else { "never" };
        let source = format!("file = \"reference.cu\"\n{launch}\n");
        format!(
            "\n[tolerance]\nabsolute = {}\nrelative = {}\nnan = \"{nan}\"\n\
             \n[limits]\ncompile_ms = {}\nlaunch_ms = {}\nrun_ms = {run}\nmemory_bytes = {memory}\n\
             \n[reference]\n{source}\n[baseline]\n{source}",
            real(case.absolute),
            real(case.relative),
            case.compile_ms,
            case.launch_ms,
        )
    }
}

/// The sides of a buffer, each through all configs; one flat side where the ranks differ; none for a scalar.
fn sides(column: &Column<'_>) -> Vec<Vec<i64>> {
    let shapes: Vec<&[i64]> = column
        .arguments
        .iter()
        .filter_map(|argument| match &argument.kind {
            ArgumentKind::Buffer { shape, role: _, start: _ } => Some(shape.as_slice()),
            ArgumentKind::Integer(_) | ArgumentKind::Float(_) => None,
        })
        .collect();
    let rank = shapes.first().map_or(0, |shape| shape.len());
    if shapes.iter().any(|shape| shape.len() != rank) {
        let flat = |shape: &&[i64]| shape.iter().fold(1_i64, |count, side| count.saturating_mul(*side));
        return vec![shapes.iter().map(flat).collect()];
    }
    (0..rank).map(|at| shapes.iter().map(|shape| shape[at]).collect()).collect()
}

/// The values of an integer scalar in every config.
fn integers(column: &Column<'_>) -> Option<Vec<i64>> {
    column
        .arguments
        .iter()
        .map(|argument| match &argument.kind {
            ArgumentKind::Integer(value) => Some(*value),
            ArgumentKind::Float(_) | ArgumentKind::Buffer { .. } => None,
        })
        .collect()
}

enum Draw {
    /// An inline table.
    Text(String),
    Bytes(Vec<u8>),
}

/// The same distribution in our words. Errors: what is wrong with it.
fn draw(element: ElementType, start: &Start, count: u64) -> Result<Draw, String> {
    let mut specials = String::new();
    if !start.specials.is_empty() {
        let list: Vec<String> = start.specials.iter().map(special).collect();
        specials = format!(", specials = [{}]", list.join(", "));
    }
    let text = match &start.value {
        StartValue::Normal { mean, std } => {
            format!("normal = {{ mean = {}, std = {} }}", real(*mean), real(std.abs()))
        }
        StartValue::Uniform { low, high } if low != high => {
            let (low, high) = (low.min(*high), high.max(*low));
            format!("uniform = {{ low = {}, high = {} }}", real(low), real(high))
        }
        StartValue::Uniform { low: value, high: _ } | StartValue::Constant(value) => {
            constant(element, *value)?
        }
        StartValue::Integers { low, high } => {
            let input = Input::Integers { low: *low, high: *high };
            let fit = fit(&input, element, count);
            if low.unsigned_abs() >= EXACT_MAX || high.unsigned_abs() >= EXACT_MAX {
                return wide(input, element, start, count);
            }
            format!("integers = {{ low = {low}, high = {high} }}{fit}")
        }
        StartValue::Arange => {
            let fit = fit(&Input::Arange { start: 0, step: 1 }, element, count);
            format!("arange = {{ start = 0, step = 1 }}{fit}")
        }
        StartValue::Poison if specials.is_empty() => "poison = {}".to_owned(),
        StartValue::Poison => return Err("poison takes no special values".to_owned()),
    };
    Ok(Draw::Text(format!("{{ {text}{specials} }}")))
}

/// A constant in the schema is cast to the element type.
fn constant(element: ElementType, value: f64) -> Result<String, String> {
    let largest = element.float_limits().map_or(f64::MAX, |(_, largest)| largest);
    let decimal = Decimal::from_f64(value).map_err(|error| error.to_string())?;
    let exact =
        generator::check(&Input::Constant { value: decimal }, element, 1).is_ok() && value.abs() <= largest;
    Ok(format!("constant = {}{}", real(value), if exact { "" } else { CAST }))
}

const CAST: &str = ", fit = \"cast\"";

/// What must be written where not every element is exact.
fn fit(input: &Input, element: ElementType, count: u64) -> &'static str {
    if generator::check(input, element, count).is_ok() { "" } else { CAST }
}

/// A draw whose bounds no document can hold, drawn here.
fn wide(input: Input, element: ElementType, start: &Start, count: u64) -> Result<Draw, String> {
    if count.saturating_mul(element.bytes().unwrap_or(1)) > FILE_MAX {
        return Err(format!("{count} elements are too many for an input file"));
    }
    let exact = generator::check(&input, element, count).is_ok() && start.specials.is_empty();
    let input = match exact {
        true => input,
        false => Input::Adapted { draw: Box::new(input), fit: Fit::Cast, specials: start.specials.clone() },
    };
    let bytes = generator::draw(&input, element, count, Seed(start.seed), "case", "input", 0);
    bytes.map(Draw::Bytes).map_err(|error| error.to_string())
}

fn special(special: &Special) -> String {
    let value = match special.value {
        SpecialValue::Nan => "nan",
        SpecialValue::Inf => "inf",
        SpecialValue::NegInf => "-inf",
    };
    format!("{{ index = {}, value = \"{value}\" }}", special.index)
}

/// A number as text in quotes, in the shortest form that reads back.
fn real(value: f64) -> String {
    format!("\"{value:?}\"")
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
