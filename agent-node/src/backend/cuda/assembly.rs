//! From what ptxas says about a line of PTX to the line of the source that it came from. Pure.
//!
//! ptxas knows only the PTX that NVRTC made. The same source compiled once more with `-lineinfo`, to PTX, has `.loc`
//! lines (PTX ISA, "Debugging Directives": file, line, column, and perhaps where it was inlined) before what each
//! statement became.

/// How ptxas begins what it says about a line.
const MARK: &str = "ptxas application ptx input, line ";

/// The first error of ptxas with its line of PTX, counted from 1.
pub(super) fn first_error(log: &str) -> Option<(usize, &str)> {
    log.lines().find_map(|line| {
        let (number, rest) = line.trim_start().strip_prefix(MARK)?.split_once(';')?;
        let (kind, message) = rest.split_once(':')?;
        let is_error = matches!(kind.trim(), "error" | "fatal");
        is_error.then_some((number.trim().parse().ok()?, message.trim()))
    })
}

/// File and line of the source that PTX line `at` came from.
pub(super) fn source_of(ptx: &str, at: usize) -> Option<(&str, u32)> {
    let mut place: Option<(u32, u32)> = None;
    for line in ptx.lines().take(at) {
        let line = line.trim_start();
        // Each function begins anew: what stands before its first `.loc` is nobody's line.
        if line.starts_with(".visible .entry") || line.starts_with(".entry") || line.starts_with(".func") {
            place = None;
        }
        let Some(rest) = line.strip_prefix(".loc") else { continue };
        let mut words = rest.split([' ', '\t', ',']).filter(|word| !word.is_empty());
        place = words
            .next()
            .and_then(|file| file.parse().ok())
            .zip(words.next().and_then(|line| line.parse().ok()));
    }
    let (file, line) = place?;
    let name = ptx.lines().find_map(|text| {
        let rest = text.trim_start().strip_prefix(".file")?.trim_start();
        let (number, rest) = rest.split_once(char::is_whitespace)?;
        if number.parse::<u32>().ok()? != file {
            return None;
        }
        rest.split('"').nth(1)
    })?;
    Some((name, line))
}

/// The options with which the same source becomes PTX with line numbers; `None` if there is nothing to ask for.
pub(super) fn options(options: &[String], virtual_architecture: bool) -> Vec<String> {
    let mut changed: Vec<String> = Vec::new();
    for option in options {
        match option.strip_prefix("-arch=sm_") {
            Some(number) if virtual_architecture => changed.push(format!("-arch=compute_{number}")),
            Some(_) | None if option.starts_with("--ptxas-options") => {}
            Some(_) | None => changed.push(option.clone()),
        }
    }
    if !changed.iter().any(|option| option == "-lineinfo") {
        changed.push("-lineinfo".to_owned());
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOG: &str = "ptxas info    : 0 bytes gmem\n\
        ptxas application ptx input, line 11; error   : Instruction 'wgmma.fence' not supported on .target 'sm_80'\n\
        ptxas fatal   : Ptx assembly aborted due to errors\n";
    const PTX: &str = ".version 9.0\n\
        .visible .entry plain(\n)\n{\n\t.loc\t1 2 5\n\tret;\n}\n\
        .visible .entry f(\n)\n\
        \t.loc\t2 5 5, function_name $L__info_string0, inlined_at 1 9 5\n\
        \twgmma.fence.sync.aligned;\n\
        \t.loc\t1 10 5\n\tret;\n\
        \t.file\t1 \"/job/kernel.cu\"\n\t.file\t2 \"/job/source/fence.cuh\"\n";

    #[test]
    fn an_error_of_the_assembler_leads_to_the_line_that_was_inlined() {
        let (line, message) = first_error(LOG).unwrap();
        assert_eq!((line, message), (11, "Instruction 'wgmma.fence' not supported on .target 'sm_80'"));
        assert_eq!(source_of(PTX, line), Some(("/job/source/fence.cuh", 5)));
        assert_eq!(source_of(PTX, 13), Some(("/job/kernel.cu", 10)));
        assert_eq!(source_of(PTX, 9), None, "a function's head has no line");
        assert_eq!(source_of("", 3), None);
        assert_eq!(first_error("kernel.cu(3): error: no\nptxas warning : x\n"), None);
    }

    #[test]
    fn the_second_compilation_differs_in_what_it_says_only() {
        let given = ["-arch=sm_90a", "--fmad=true", "--ptxas-options=-v", "-I=source"].map(str::to_owned);
        assert_eq!(options(&given, true), ["-arch=compute_90a", "--fmad=true", "-I=source", "-lineinfo"]);
        assert_eq!(options(&given, false), ["-arch=sm_90a", "--fmad=true", "-I=source", "-lineinfo"]);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reading_panic(log in ".{0,200}", ptx in "(\\.loc 1 2|\\.file 1|\"a\"|\n|,| ){0,40}", at in 0usize..50) {
            let _ = (first_error(&log), source_of(&ptx, at), source_of(&log, at));
        }
    }
}
