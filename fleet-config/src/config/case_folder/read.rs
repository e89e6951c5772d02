//! `case.json`, typed.

use super::field::{Field, document};
use crate::domain::{ElementType, Role, Special, SpecialValue};
use crate::refusal::Refusal;
use std::collections::{BTreeMap, BTreeSet};

/// Bounds of one case: those of a task where it has them.
const CONFIGS_MAX: usize = 256;
const ARGUMENTS_MAX: usize = 64;
const CANDIDATES_MAX: usize = 16;
const SIDES_MAX: usize = 8;
const SETUP_MAX: usize = 64;
/// Special elements of one buffer.
const SPECIALS_MAX: usize = 1 << 16;

/// What `case.json` says.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseFolder {
    pub name: String,
    pub kind: String,
    pub language: Language,
    /// The kernel; empty where the language has none.
    pub entry: String,
    /// File names in the folder.
    pub reference: String,
    pub candidates: Vec<String>,
    pub requires: Requires,
    pub compile_ms: u64,
    pub launch_ms: u64,
    pub absolute: f64,
    pub relative: f64,
    pub nan_equal: bool,
    /// Files that lie there while the case runs: text by path.
    pub setup: BTreeMap<String, String>,
    /// Empty where the language takes no launches.
    pub configs: Vec<Config>,
    /// Keys that this reader does not know.
    pub unknown: Vec<String>,
}

/// The language of reference and candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Cuda,
    Python,
}

/// What a device must have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requires {
    /// Compute capability, such as 80 for 8.0.
    pub min_sm: Option<i64>,
    /// Bytes of shared memory that a block may opt in to.
    pub min_shared_optin: Option<i64>,
    /// Modules of Python.
    pub python: Vec<String>,
}

/// One input configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub name: String,
    /// Whether those who write candidates may see it.
    pub visible: bool,
    pub arguments: Vec<Argument>,
    pub launches: Launches,
}

/// How either side is launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launches {
    pub reference: Geometry,
    pub candidate: Geometry,
}

/// Numbers of one launch; whether they are legal is the lint's question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    pub grid: [i64; 3],
    pub block: [i64; 3],
    pub shared_bytes: i64,
}

/// One argument of the kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Argument {
    pub name: String,
    pub element: ElementType,
    pub kind: ArgumentKind,
}

/// Passed by value or by address.
#[derive(Debug, Clone, PartialEq)]
pub enum ArgumentKind {
    Integer(i64),
    Float(f64),
    Buffer { shape: Vec<i64>, role: Role, start: Start },
}

/// What a buffer holds at first.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    pub value: StartValue,
    /// Seed of the first draw; ours come from the coordinator.
    pub seed: u64,
    pub specials: Vec<Special>,
}

/// The distribution.
#[derive(Debug, Clone, PartialEq)]
pub enum StartValue {
    Normal {
        mean: f64,
        std: f64,
    },
    Uniform {
        low: f64,
        high: f64,
    },
    /// Half-open.
    Integers {
        low: i64,
        high: i64,
    },
    /// 0, 1, 2, …
    Arange,
    Constant(f64),
    Poison,
}

/// Reads the text of `case.json`. Errors: `case/size`, `case/json`, `case/field`, `case/schema`, `case/language`.
pub fn parse_case(bytes: &[u8]) -> Result<CaseFolder, Refusal> {
    let value = document(bytes, "case.json")?;
    let root = Field::root(&value, "case.json");
    let schema = root.required("schema")?;
    if schema.integer()? != 1 {
        let cause = format!("schema {} is not one that is known", schema.value);
        return Err(Refusal::new("case/schema", schema.place, cause, "Write the case in schema 1."));
    }
    let language = root.required("language")?;
    let language = match language.text()?.as_str() {
        "cuda" => Language::Cuda,
        "python" => Language::Python,
        other => {
            let cause = format!("`{}` is no language of cases", other.chars().take(40).collect::<String>());
            return Err(Refusal::new("case/language", language.place, cause, "Write cuda or python."));
        }
    };
    let limits = root.required("limits")?;
    let tolerance = root.required("tolerance")?;
    let (entry, configs) = match language {
        Language::Cuda => (root.required("entry")?.text()?, configs(&root)?),
        Language::Python => (String::new(), Vec::new()),
    };
    let known = [
        "schema",
        "name",
        "kind",
        "language",
        "entry",
        "reference",
        "candidates",
        "requires",
        "limits",
        "tolerance",
        "setup",
        "configs",
    ];
    let mut unknown = root.unknown(&known);
    unknown.extend(limits.unknown(&["compile_timeout_s", "launch_timeout_s"]));
    unknown.extend(tolerance.unknown(&["atol", "rtol", "nan_equal"]));
    Ok(CaseFolder {
        name: root.required("name")?.text()?,
        kind: root.required("kind")?.text()?,
        language,
        entry,
        reference: root.required("reference")?.text()?,
        candidates: root.required("candidates").and_then(|_| root.texts("candidates", CANDIDATES_MAX))?,
        requires: requires(&root)?,
        compile_ms: milliseconds(&limits, "compile_timeout_s")?,
        launch_ms: milliseconds(&limits, "launch_timeout_s")?,
        absolute: tolerance.required("atol")?.number()?,
        relative: tolerance.required("rtol")?.number()?,
        nan_equal: tolerance.optional("nan_equal").map_or(Ok(false), |flag| flag.flag())?,
        setup: setup(&root)?,
        configs,
        unknown,
    })
}

fn milliseconds(limits: &Field<'_>, name: &str) -> Result<u64, Refusal> {
    let field = limits.required(name)?;
    let seconds = field.number()?;
    if !(0.001..=3600.0).contains(&seconds) {
        return Err(field.refuse("a limit is from 0.001 to 3600 seconds"));
    }
    Ok((seconds * 1000.0).round() as u64)
}

fn requires(root: &Field<'_>) -> Result<Requires, Refusal> {
    let Some(requires) = root.optional("requires") else { return Ok(Requires::default()) };
    Ok(Requires {
        min_sm: requires.optional("min_sm").map(|field| field.integer()).transpose()?,
        min_shared_optin: requires.optional("min_shared_optin").map(|field| field.integer()).transpose()?,
        python: requires.texts("python", SETUP_MAX)?,
    })
}

fn setup(root: &Field<'_>) -> Result<BTreeMap<String, String>, Refusal> {
    let Some(files) = root.optional("setup").and_then(|setup| setup.optional("files")) else {
        return Ok(BTreeMap::new());
    };
    files.members(SETUP_MAX)?.into_iter().map(|(path, text)| Ok((path, text.text()?))).collect()
}

fn configs(root: &Field<'_>) -> Result<Vec<Config>, Refusal> {
    let field = root.required("configs")?;
    let list = field.list(CONFIGS_MAX)?;
    if list.is_empty() {
        return Err(field.refuse("a case has at least one config"));
    }
    differ(&list)?;
    list.iter().map(config).collect()
}

/// Refuses a list of which two have one name.
fn differ(list: &[Field<'_>]) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    for field in list {
        let name = field.required("name")?;
        if !seen.insert(name.text()?) {
            return Err(name.refuse("another one before it has this name"));
        }
    }
    Ok(())
}

fn config(field: &Field<'_>) -> Result<Config, Refusal> {
    let launch = field.required("launch")?;
    let arguments = field.required("args")?.list(ARGUMENTS_MAX)?;
    differ(&arguments)?;
    Ok(Config {
        name: field.required("name")?.text()?,
        visible: field.optional("visible").map_or(Ok(true), |visible| visible.flag())?,
        arguments: arguments.iter().map(argument).collect::<Result<_, _>>()?,
        launches: Launches {
            reference: geometry(&launch.required("reference")?)?,
            candidate: geometry(&launch.required("candidate")?)?,
        },
    })
}

fn geometry(field: &Field<'_>) -> Result<Geometry, Refusal> {
    let sides = |name: &str| -> Result<[i64; 3], Refusal> {
        let list = field.required(name)?;
        let mut sides = [1; 3];
        let numbers = list.list(sides.len())?;
        for (side, number) in sides.iter_mut().zip(numbers) {
            *side = number.integer()?;
        }
        Ok(sides)
    };
    let shared_bytes = field.optional("shared_bytes").map_or(Ok(0), |shared| shared.integer())?;
    Ok(Geometry { grid: sides("grid")?, block: sides("block")?, shared_bytes })
}

fn argument(field: &Field<'_>) -> Result<Argument, Refusal> {
    let dtype = field.required("dtype")?;
    let text = dtype.text()?;
    let named = ElementType::USABLE.into_iter().find(|element| element.name() == text);
    let element = named.ok_or_else(|| dtype.refuse("no element type of this name"))?;
    let kind = field.required("kind")?;
    let kind = match kind.text()?.as_str() {
        "scalar" if element.is_exact() => ArgumentKind::Integer(field.required("value")?.integer()?),
        "scalar" => ArgumentKind::Float(field.required("value")?.number()?),
        "buffer" => buffer(field, element)?,
        _ => return Err(kind.refuse("an argument is a scalar or a buffer")),
    };
    Ok(Argument { name: field.required("name")?.text()?, element, kind })
}

fn buffer(field: &Field<'_>, element: ElementType) -> Result<ArgumentKind, Refusal> {
    let sides = field.required("shape")?.list(SIDES_MAX)?;
    let shape: Vec<i64> = sides.iter().map(Field::integer).collect::<Result<_, _>>()?;
    let role = field.required("role")?;
    let role = match role.text()?.as_str() {
        "in" => Role::In,
        "out" => Role::Out,
        "inout" => Role::Inout,
        _ => return Err(role.refuse("a role is in, out or inout")),
    };
    let start = start(&field.required("init")?, element, &shape)?;
    Ok(ArgumentKind::Buffer { shape, role, start })
}

fn start(field: &Field<'_>, element: ElementType, shape: &[i64]) -> Result<Start, Refusal> {
    let number = |name: &str| field.required(name).and_then(|field| field.number());
    let integer = |name: &str| field.required(name).and_then(|field| field.integer());
    let dist = field.required("dist")?;
    let value = match dist.text()?.as_str() {
        "normal" => StartValue::Normal { mean: number("mean")?, std: number("std")? },
        "uniform" => StartValue::Uniform { low: number("lo")?, high: number("hi")? },
        "randint" => StartValue::Integers { low: integer("lo")?, high: integer("hi")? },
        "arange" => StartValue::Arange,
        "zeros" => StartValue::Constant(0.0),
        "constant" => StartValue::Constant(number("value")?),
        "poison" => StartValue::Poison,
        _ => return Err(dist.refuse("no distribution of this name")),
    };
    let seed = field.optional("seed").map_or(Ok(0), |seed| seed.integer())?.unsigned_abs();
    let mut specials = Vec::new();
    if let Some(words) = field.optional("specials") {
        let count = shape.iter().fold(1_i64, |count, side| count.saturating_mul(*side));
        for (word, places) in words.members(3)? {
            let value = match word.as_str() {
                "nan" => SpecialValue::Nan,
                "inf" => SpecialValue::Inf,
                "-inf" => SpecialValue::NegInf,
                _ => return Err(places.refuse("a special value is nan, inf or -inf")),
            };
            if element.is_exact() {
                return Err(places.refuse(format!("{element} has no {word}")));
            }
            for place in places.list(SPECIALS_MAX)? {
                let given = place.integer()?;
                // As in numpy, a negative index counts from the end.
                let index = if given < 0 { given.saturating_add(count) } else { given };
                let index = u64::try_from(index).ok().filter(|_| index < count);
                let index = index.ok_or_else(|| place.refuse(format!("the buffer has {count} elements")))?;
                specials.push(Special { index, value });
            }
        }
        // The last word for an element counts, as in the file.
        specials.sort_by_key(|special| special.index);
    }
    Ok(Start { value, seed, specials })
}
