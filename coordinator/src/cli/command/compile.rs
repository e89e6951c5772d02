//! `muster compile`: what kernels use on architectures that need not be here.

use crate::cli::args::CompileArgs;
use crate::cli::output::{self, Output};
use crate::cli::{Context, Ending};
use crate::cli::{operand, spawn};
use fleet_config::refusal::Refusal;
use std::path::Path;
use std::process::Output as Ran;

/// The exit code by which the node binary says that a source did not compile. Its answer then stands on standard output.
const FAILED: i32 = 1;

/// Lets the node binary compile, which has the compiler and its sandbox; what it prints is the answer.
pub(crate) fn run(context: &Context, args: &CompileArgs) -> Result<Ending, Refusal> {
    for source in &args.sources {
        operand::exists(source, "compile/missing-file", "give the path of a source or a task")?;
    }
    let arguments = arguments(args, context.output)?;
    let Ran { status, stdout, stderr } = spawn::run("muster-node", &arguments)?;
    let answer = String::from_utf8_lossy(&stdout);
    let ending = match status.code() {
        Some(0) => Ending::Done,
        Some(FAILED) if !answer.trim().is_empty() => Ending::Failed,
        Some(_) | None => {
            let said: String = String::from_utf8_lossy(&stderr).trim().chars().take(1000).collect();
            let cause = said.trim_start_matches("muster-node compile: ").to_owned();
            let next = "`muster doctor` says which compilers are here and what to do where there is none";
            return Err(Refusal::new("compile/unusable", "muster-node compile", cause, next));
        }
    };
    output::line(answer.trim_end());
    Ok(ending)
}

fn arguments(args: &CompileArgs, output: Output) -> Result<Vec<String>, Refusal> {
    let CompileArgs {
        sources,
        arch,
        kernel,
        flag,
        threads,
        dynamic_shared,
        nvrtc,
        toolchain,
        unsafe_no_sandbox,
    } = args;
    let mut arguments = vec!["compile".to_owned()];
    let text = |path: &Path| path.display().to_string();
    match sources.as_slice() {
        [task, candidates @ ..] if is_task(task) => {
            arguments.push(format!("--task={}", text(task)));
            arguments.extend(candidates.iter().map(|path| format!("--candidate={}", text(path))));
        }
        [file] => arguments.extend(["--".to_owned(), text(file)]),
        [first, ..] => {
            let cause = "several paths are given and the first is no task";
            let next = "give one source, or a task's folder before its candidates";
            return Err(Refusal::new("compile/no-task", text(first), cause, next));
        }
        [] => return Err(Refusal::new("compile/no-task", "", "nothing is given", "give a source or a task")),
    }
    let mut options = vec![format!("--arch={}", arch.join(","))];
    options.extend(kernel.iter().map(|name| format!("--kernel={name}")));
    options.extend(flag.iter().map(|flag| format!("--flag={flag}")));
    options.extend(threads.map(|count| format!("--threads={count}")));
    options.extend(dynamic_shared.map(|bytes| format!("--dynamic-shared={bytes}")));
    options.extend(nvrtc.as_deref().map(|paths| format!("--nvrtc={}", text(paths))));
    options.extend(toolchain.iter().map(|name| format!("--toolchain={name}")));
    options.extend(unsafe_no_sandbox.then(|| "--unsafe-no-sandbox".to_owned()));
    options.extend((output == Output::Json).then(|| "--json".to_owned()));
    // A source may begin with a dash, so it stands last, behind `--`.
    arguments.splice(1..1, options);
    Ok(arguments)
}

fn is_task(path: &Path) -> bool {
    path.is_dir() || path.extension().is_some_and(|ending| ending == "toml")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn args(sources: &[&Path]) -> CompileArgs {
        CompileArgs {
            sources: sources.iter().map(|path| path.to_path_buf()).collect(),
            arch: vec!["sm_80".to_owned(), "sm_90a".to_owned()],
            kernel: Vec::new(),
            flag: vec!["--use_fast_math".to_owned()],
            threads: Some(128),
            dynamic_shared: None,
            nvrtc: Some(PathBuf::from("/opt/one:/opt/other")),
            toolchain: None,
            unsafe_no_sandbox: false,
        }
    }

    #[test]
    fn the_node_binary_gets_every_word_and_a_source_is_never_an_option() {
        let options =
            ["--arch=sm_80,sm_90a", "--flag=--use_fast_math", "--threads=128", "--nvrtc=/opt/one:/opt/other"];
        let file = arguments(&args(&[Path::new("-k.cu")]), Output::Text).unwrap();
        assert_eq!(file, [&["compile"], options.as_slice(), &["--", "-k.cu"]].concat());
        let folder = tempfile::tempdir().unwrap();
        let task = folder.path().display().to_string();
        let found = arguments(&args(&[folder.path(), Path::new("a.cu")]), Output::Json).unwrap();
        let tail = ["--json".to_owned(), format!("--task={task}"), "--candidate=a.cu".to_owned()];
        assert_eq!(found[5..], tail);
        let several = arguments(&args(&[Path::new("a.cu"), Path::new("b.cu")]), Output::Text).unwrap_err();
        assert_eq!(several.code, "compile/no-task");
    }
}
