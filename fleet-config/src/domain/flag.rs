//! Compiler flags that a policy may add: optimisation and language. None of them reads, writes or loads a file, names a
//! folder, or hands words on to another program.

/// What the compiler of a CPU device may be given.
pub const HOST_FLAGS: [&str; 12] = [
    "-O0",
    "-O1",
    "-O2",
    "-O3",
    "-std=c++14",
    "-std=c++17",
    "-std=c++20",
    "-funroll-loops",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fwrapv",
    "-ftree-vectorize",
];

/// What the compiler for GPUs may be given.
pub const GPU_FLAGS: [&str; 7] = [
    "-std=c++14",
    "-std=c++17",
    "-std=c++20",
    "-lineinfo",
    "--use_fast_math",
    "--extra-device-vectorization",
    "--restrict",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_flag_names_a_file_or_another_program() {
        for flag in HOST_FLAGS.iter().chain(&GPU_FLAGS) {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '=' | '+');
            assert!(flag.starts_with('-') && flag.chars().all(plain), "{flag}");
            let reaches =
                ["-I", "-L", "-B", "-X", "-W", "-include", "-fplugin", "-specs", "-o", "--options-file"];
            assert!(!reaches.iter().any(|word| flag.starts_with(word)), "{flag}");
        }
    }
}
