//! The small task of the whole-fleet tests and sources for it.

use crate::fleet::{Fleet, checkout};
use std::path::PathBuf;

/// Folder of the task in the checkout.
pub const TASK: &str = "tests/fixtures/saxpy";

/// The candidate that is right.
pub fn good() -> String {
    std::fs::read_to_string(checkout().join(TASK).join("good.cu")).expect("the fixture is there")
}

/// `count` right candidates whose sources differ, named `PREFIX-000` and so on.
pub fn good_ones(fleet: &Fleet, prefix: &str, count: usize) -> Vec<PathBuf> {
    let source = good();
    (0..count)
        .map(|number| {
            let name = format!("{prefix}-{number:03}");
            fleet.write(&format!("{name}.cu"), format!("{source}// {name}\n").as_bytes())
        })
        .collect()
}

/// A candidate that begins with `before` and whose kernel runs `body` for each thread, with the right result
/// computed first when `body` does not return. Inside, `i` is the thread's element.
pub fn kernel(before: &str, body: &str) -> String {
    format!(
        "{before}\nextern \"C\" __global__ void saxpy(const float* x, const float* y, float* z, int n) {{\n  \
         int i = blockIdx.x * blockDim.x + threadIdx.x;\n{body}\n}}\n"
    )
}

/// What a kernel does when it does what it should.
pub const RIGHT: &str = "  if (i < n) z[i] = 2.5f * x[i] + y[i];";

/// The task with other limits, in a folder of its own.
pub fn task_with(fleet: &Fleet, name: &str, changes: &[(&str, &str)]) -> PathBuf {
    let folder = fleet.path(name);
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    for file in ["task.toml", "reference.cu", "baseline.cu"] {
        let mut text = std::fs::read_to_string(checkout().join(TASK).join(file)).expect("the fixture");
        if file == "task.toml" {
            text = text.replace("name = \"saxpy\"", &format!("name = \"{name}\""));
            for (before, after) in changes {
                assert!(text.contains(before), "the task says nothing of {before}");
                text = text.replace(before, after);
            }
        }
        std::fs::write(folder.join(file), text).expect("a file can be written");
    }
    folder
}
