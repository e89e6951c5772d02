//! The first text of a task file, inferred from a kernel's signature.

use super::declaration::{Declaration, Passing, without_comments};
use super::{DeclaredParameter, check_path};
use crate::domain::ElementType;
use crate::refusal::Refusal;
use std::fmt::Write as _;

/// Sizes of the correctness case, taken in turn: odd, and no multiple of a warp or a tile.
const ODD: [u32; 3] = [31, 37, 29];
/// A name stands in expressions, which have a length of their own.
const NAME_MAX: usize = 64;
/// Size of every dimension of the performance case.
const LARGE: u32 = 256;

/// The text of a task file for `muster task new`. Buffers, scalars and dimensions come from `signature`; what
/// cannot be known (shapes, tolerance, launches, licence) gets a value that parses and lints, marked with
/// `# edit:`. `reference` and `kernel` are file names beside the task file. Errors: `task/signature`,
/// `source/path`.
pub fn scaffold(signature: &str, reference: &str, kernel: &str) -> Result<String, Refusal> {
    check_path(reference)?;
    check_path(kernel)?;
    let declaration = Declaration::parse(signature).map_err(|error| {
        let next = "Write it as `extern \"C\" __global__ void name(parameters)`.";
        Refusal::new("task/signature", "--signature", error.to_string(), next)
    })?;
    if declaration.parameters.iter().all(|parameter| parameter.passing != Passing::Pointer) {
        let next = "Give the outputs as pointers to elements that are not `const`.";
        return Err(Refusal::new("task/signature", "--signature", "no parameter is written to", next));
    }
    if let Some(reserved) = declaration.parameters.iter().find(|p| p.elements[0].is_reserved()) {
        let cause = format!("`{}` is of a type that is reserved", reserved.text);
        return Err(Refusal::new("task/signature", "--signature", cause, "Choose another element type."));
    }
    let names = names(&declaration)?;
    let dims = dims(&declaration, &names);
    let mut text = head(signature, &declaration.entry, &dims);
    for (parameter, name) in declaration.parameters.iter().zip(&names) {
        text.push_str(&param(parameter, name, &dims));
    }
    for (parameter, name) in declaration.parameters.iter().zip(&names) {
        if parameter.passing == Passing::ConstPointer {
            text.push_str(&input(name, parameter.elements[0]));
        }
    }
    text.push_str(&cases(&dims));
    text.push_str(&tail(&dims[0], reference, kernel));
    Ok(text)
}

/// Every parameter's own name, or one by its position that no other has.
fn names(declaration: &Declaration) -> Result<Vec<String>, Refusal> {
    let refuse = |cause: String| {
        Refusal::new("task/signature", "--signature", cause, "Give each parameter a short name of its own.")
    };
    let own: Vec<&str> = declaration.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    let mut names = Vec::with_capacity(own.len());
    for (at, name) in own.iter().enumerate() {
        if name.len() > NAME_MAX {
            let beginning: String = name.chars().take(16).collect();
            return Err(refuse(format!("the name `{beginning}…` has more than {NAME_MAX} characters")));
        }
        if !name.is_empty() && own[..at].contains(name) {
            return Err(refuse(format!("two parameters are called `{name}`")));
        }
        let mut name = if name.is_empty() { format!("p{at}") } else { (*name).to_owned() };
        while own[at].is_empty() && own.contains(&name.as_str()) {
            name.push('_');
        }
        names.push(name);
    }
    Ok(names)
}

/// The integer scalars are the dimensions; a kernel without any gets `n`.
fn dims(declaration: &Declaration, names: &[String]) -> Vec<String> {
    let mut dims: Vec<String> = Vec::new();
    for (parameter, name) in declaration.parameters.iter().zip(names) {
        let dim = name.to_ascii_lowercase();
        if is_dimension(parameter) && !dims.contains(&dim) {
            dims.push(dim);
        }
    }
    if dims.is_empty() {
        dims.push("n".to_owned());
    }
    dims
}

fn is_dimension(parameter: &DeclaredParameter) -> bool {
    let wide = |element: &ElementType| element.is_exact() && element.bits() >= 32;
    parameter.passing == Passing::Value && parameter.elements.first().is_some_and(wide)
}

fn head(signature: &str, entry: &str, dims: &[String]) -> String {
    let name: String = entry.chars().map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() }).collect();
    let name: String = name.trim_matches('-').chars().take(64).collect();
    let name = if name.is_empty() { "task".to_owned() } else { name };
    format!(
        "# Lines marked `edit:` hold a guess. `muster task lint` says what does not fit.\n\
         name = \"{name}\"\n\
         summary = \"{entry}\" # edit: what is computed, in one sentence\n\
         entry = \"{entry}\"\n\
         signature = {}\n\
         dims = [{}] # edit: the sizes that shapes and launches are written in\n\
         licence = \"\" # edit: SPDX expression of the sources\n",
        // A line comment would end the declaration once its lines are joined.
        quoted(&without_comments(signature).split_whitespace().collect::<Vec<_>>().join(" ")),
        list(dims),
    )
}

fn param(parameter: &DeclaredParameter, name: &str, dims: &[String]) -> String {
    let element = parameter.elements[0];
    let head = format!("\n[[param]]\nname = \"{name}\"\ntype = \"{element}\"\n");
    let shape = format!("shape = [\"{}\"] # edit: row-major sides, as in [\"m\", \"k\"]\n", dims[0]);
    match parameter.passing {
        Passing::ConstPointer => format!("{head}role = \"in\"\n{shape}"),
        Passing::Pointer => {
            format!("{head}role = \"out\" # edit: \"inout\" if the kernel reads it too\n{shape}")
        }
        Passing::Value if is_dimension(parameter) => {
            format!("{head}value = \"{}\"\n", name.to_ascii_lowercase())
        }
        Passing::Value => format!("{head}value = 1 # edit: the scalar that every case takes\n"),
    }
}

fn input(name: &str, element: ElementType) -> String {
    let draw = if element == ElementType::Bool {
        "integers = { low = 0, high = 2 }"
    } else if element.is_exact() {
        "integers = { low = 0, high = 100 } # edit: low included, high excluded"
    } else {
        "normal = { mean = 0, std = 1 }"
    };
    format!("\n[inputs.{name}]\n{draw}\n")
}

fn cases(dims: &[String]) -> String {
    let sizes = |size: &dyn Fn(usize) -> u32| {
        let pairs = dims.iter().enumerate().map(|(at, dim)| format!("{dim} = {}", size(at)));
        pairs.collect::<Vec<_>>().join(", ")
    };
    let odd = sizes(&|at| ODD[at % ODD.len()]);
    let large = sizes(&|_| LARGE);
    let sealed = sizes(&|at| LARGE - ODD[at % ODD.len()]);
    format!(
        "\n[[case]]\nname = \"odd\"\nkind = \"correctness\"\ndims = {{ {odd} }}\n\
         \n[[case]]\nname = \"large\"\nkind = \"performance\"\ndims = {{ {large} }} # edit: a size that matters\n\
         \n# Sealed away by `muster task add`; candidates never see it.\n\
         [[holdout.case]]\nname = \"sealed\"\nkind = \"correctness\"\n\
         dims = {{ {sealed} }} # edit: sizes that nobody can guess\n"
    )
}

fn tail(dim: &str, reference: &str, kernel: &str) -> String {
    let launch = format!(
        "launch = {{ grid = [\"ceil_div({dim}, 256)\"], block = [256] }} # edit: as this kernel expects\n"
    );
    let mut text = String::from(
        "\n# |got - expected| <= absolute + relative * |expected|; 0 is legal, integers are exact.\n\
         [tolerance]\nabsolute = 1e-5 # edit:\nrelative = 1e-5 # edit:\n",
    );
    for (table, file) in [("reference", reference), ("baseline", kernel)] {
        let author = "author = \"\" # edit: who wrote it\n";
        // Writing to a string cannot fail.
        let _ = write!(text, "\n[{table}]\nfile = {}\n{author}{launch}", quoted(file));
    }
    text
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
