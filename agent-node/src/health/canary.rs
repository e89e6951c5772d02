//! The canary: a kernel whose every output word is known, on the way that candidates take.

use super::Reading;
use crate::backend::{
    Argument, Artefact, Backend, Buffer, BufferUse, CompileRequest, EntryPoint, Evaluation, Failure,
    Interrupt, ResolvedStep, Sources, WorkerOptions,
};
use crate::sandbox::Confinement;
use fleet_config::domain::{
    DeviceDescription, ElementType, MeasurementPolicy, Milliseconds, Picoseconds, Role, Status,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

const THREADS: u32 = 256;
const BLOCKS: u32 = 64;
const WORDS: u32 = THREADS * BLOCKS;
/// Steps of each thread: a tenth of a millisecond on a device of today, so that its clock shows.
const ROUNDS: u32 = 16_000;
/// Launches: the first bring the clocks up, the shortest of the rest is the time.
const LAUNCHES: usize = 20;
const WARMUPS: usize = 10;
const LAUNCH_LIMIT: Milliseconds = Milliseconds(5_000);
const COMPILE_LIMIT: Milliseconds = Milliseconds(60_000);
const NAME: &str = "muster_canary";

/// Registers, shared memory, a barrier and every output word take part.
const SOURCE: &str = r#"
extern "C" __global__ void muster_canary(unsigned int* out, unsigned int rounds) {
    __shared__ unsigned int row[256];
    unsigned int index = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int state = index * 2654435761u + 12345u;
    for (unsigned int round = 0; round < rounds; round++) {
        state = state * 1664525u + 1013904223u;
        state ^= state >> 13;
    }
    row[threadIdx.x] = state;
    __syncthreads();
    out[index] = state + row[255 - threadIdx.x];
}
"#;

/// What the kernel must give: computed here, by the same steps.
fn expected() -> &'static [u8] {
    static EXPECTED: OnceLock<Vec<u8>> = OnceLock::new();
    EXPECTED.get_or_init(|| words(WORDS, ROUNDS))
}

fn words(words: u32, rounds: u32) -> Vec<u8> {
    let state = |index: u32| {
        let mut state = index.wrapping_mul(2_654_435_761).wrapping_add(12_345);
        for _ in 0..rounds {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state ^= state >> 13;
        }
        state
    };
    let states: Vec<u32> = (0..words).map(state).collect();
    let rows = states.chunks(THREADS as usize);
    let sums =
        rows.flat_map(|row| row.iter().zip(row.iter().rev()).map(|(one, other)| one.wrapping_add(*other)));
    sums.flat_map(u32::to_le_bytes).collect()
}

/// Where a canary runs.
#[derive(Clone, Copy)]
pub struct Cage<'a> {
    pub backend: &'a dyn Backend,
    pub device: &'a DeviceDescription,
    /// A folder that may be written to.
    pub folder: &'a Path,
    pub confinement: Confinement,
}

impl Cage<'_> {
    /// The compiled kernel; made once, and kept by whoever asks again.
    pub fn compile(&self) -> Result<Artefact, Reading> {
        let request = CompileRequest {
            sources: Sources {
                main: "canary.cu".to_owned(),
                files: BTreeMap::from([("canary.cu".to_owned(), SOURCE.as_bytes().to_vec())]),
            },
            headers: Vec::new(),
            entries: vec![EntryPoint { name: NAME.to_owned(), signature: None }],
            architecture: self.device.architecture.clone(),
            policy: MeasurementPolicy::gpu_paired(),
            limit: COMPILE_LIMIT,
            folder: self.subfolder("canary-compile")?,
            confinement: self.confinement,
            interrupt: Interrupt::never(),
        };
        self.backend.compile(&request).map_err(|failure| Reading::NotRun { message: message(&failure) })
    }

    /// Runs it. The device is claimed by the caller.
    pub fn run(&self, artefact: &Artefact) -> Reading {
        let folder = match self.subfolder("canary-run") {
            Ok(folder) => folder,
            Err(reading) => return reading,
        };
        let options = WorkerOptions {
            folder,
            confinement: self.confinement,
            launch_limit: LAUNCH_LIMIT,
            memory: 1 << 20,
            interrupt: Interrupt::never(),
        };
        match self.launch(artefact, &options) {
            Ok((time, outputs)) => compared(time, &outputs, expected()),
            Err(failure) => match failure.outcome.status {
                // The device could not even be taken: no driver, no memory. It says nothing of what it computes, and
                // attempts that need it will say the same of themselves.
                Status::Infrastructure | Status::OutOfMemory => {
                    Reading::NotRun { message: message(&failure) }
                }
                Status::Ok
                | Status::WrongResult
                | Status::ContractViolation
                | Status::Suspicious
                | Status::TaskWeak
                | Status::Rejected
                | Status::CompileError
                | Status::CompileTimeout
                | Status::LaunchError
                | Status::RuntimeError
                | Status::Timeout
                | Status::UnsupportedOnDevice
                | Status::WorkerLost => Reading::Failed { message: message(&failure) },
            },
        }
    }

    fn launch(
        &self,
        artefact: &Artefact,
        options: &WorkerOptions,
    ) -> Result<(Picoseconds, Vec<u8>), Failure> {
        let mut worker = self.backend.open(&self.device.id, artefact, options)?;
        worker.prepare(&evaluation())?;
        let mut best = Picoseconds(u64::MAX);
        for launch in 0..LAUNCHES {
            worker.fill(0, 0xff)?;
            let time = worker.launch()?;
            if launch >= WARMUPS {
                best = best.min(time);
            }
        }
        let outputs = worker.read(0)?;
        worker.check_fences()?;
        worker.finish();
        Ok((best, outputs))
    }

    fn subfolder(&self, name: &str) -> Result<std::path::PathBuf, Reading> {
        let path = self.folder.join(name);
        match std::fs::create_dir_all(&path) {
            Ok(()) => Ok(path),
            Err(error) => Err(Reading::NotRun { message: format!("{}: {error}", path.display()) }),
        }
    }
}

fn compared(time: Picoseconds, outputs: &[u8], expected: &[u8]) -> Reading {
    if outputs == expected {
        return Reading::Right { time };
    }
    let differs = outputs.chunks(4).zip(expected.chunks(4)).filter(|(found, wanted)| found != wanted).count();
    let first =
        outputs.iter().zip(expected).position(|(found, wanted)| found != wanted).unwrap_or(outputs.len());
    Reading::Wrong { message: format!("{differs} of {WORDS} words differ, the first is word {}", first / 4) }
}

fn evaluation() -> Evaluation {
    Evaluation {
        case: "canary".to_owned(),
        buffers: vec![Buffer {
            name: "out".to_owned(),
            use_: BufferUse::Parameter(Role::Out),
            element: ElementType::U32,
            bytes: u64::from(WORDS) * 4,
        }],
        steps: vec![ResolvedStep::Kernel {
            entry: 0,
            name: NAME.to_owned(),
            grid: [u64::from(BLOCKS), 1, 1],
            block: [u64::from(THREADS), 1, 1],
            shared_bytes: 0,
            arguments: vec![Argument::Buffer(0), Argument::Scalar(ROUNDS.to_le_bytes().to_vec())],
            cooperative: false,
            cluster: None,
        }],
    }
}

fn message(failure: &Failure) -> String {
    let cause = failure.outcome.cause.as_ref().map_or("no cause", |cause| cause.message.as_str());
    format!("{}: {cause}", failure.outcome.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_answer_is_that_of_the_kernels_own_steps() {
        // By hand: index 0 begins at 12345, one round gives 12345 × 1664525 + 1013904223 modulo 2³², then its upper bits.
        let one = words(THREADS, 1);
        let first = |index: u32| {
            let state = u64::from(index) * 2_654_435_761 + 12_345;
            let state = (state % (1 << 32)) * 1_664_525 + 1_013_904_223;
            let state = u32::try_from(state % (1 << 32)).unwrap();
            state ^ (state >> 13)
        };
        let sum = first(0).wrapping_add(first(255));
        assert_eq!(one[..4], sum.to_le_bytes());
        assert_eq!(one.len(), 1024);
        assert_eq!(one[1020..], sum.to_le_bytes(), "the last of a row has the first's sum");
    }

    #[test]
    fn one_flipped_bit_is_wrong_and_says_where() {
        let expected = words(THREADS * 2, 3);
        let mut outputs = expected.clone();
        assert_eq!(compared(Picoseconds(5), &outputs, &expected), Reading::Right { time: Picoseconds(5) });
        outputs[4 * 300 + 2] ^= 0x10;
        let Reading::Wrong { message } = compared(Picoseconds(5), &outputs, &expected) else { panic!() };
        assert!(message.contains("1 of") && message.ends_with("word 300"), "{message}");
        assert!(matches!(compared(Picoseconds(5), &outputs[..100], &expected), Reading::Wrong { .. }));
    }
}
