//! Bugs put into good kernels: which stage finds each, and that no good kernel is refused.

use super::{ALONE, Place, policy, run_checked};
use fleet_config::domain::{Blame, CheckFinding, MeasurementPolicy, Milliseconds, Screen, Status};
use std::path::{Path, PathBuf};

/// One passage of a kernel of `tests/kernels`, replaced, and the check that should see it.
struct Bug {
    kernel: &'static str,
    from: &'static str,
    to: &'static str,
    finder: &'static str,
}

const fn bug(kernel: &'static str, from: &'static str, to: &'static str, finder: &'static str) -> Bug {
    Bug { kernel, from, to, finder }
}

/// Truncated sums, missing barriers, tails, wrong strides, uninitialised memory, lost atomics, lower precision.
const BUGS: &[Bug] = &[
    bug("axpy-half", "i >= n / 2", "i >= n / 2 - 1", "smoke"),
    bug("axpy-half", "2.5f", "2.25f", "smoke"),
    bug(
        "axpy-half",
        "__hfma2(__float2half2_rn(2.5f), from[i], to[i])",
        "__hmul2(__float2half2_rn(2.5f), from[i])",
        "smoke",
    ),
    bug("reduce-shuffle", "offset = 16", "offset = 8", "smoke"),
    bug("reduce-shuffle", "sum += row[i]", "sum = row[i]", "smoke"),
    bug("reduce-shuffle", "i < n; i += blockDim.x", "i < n - 1; i += blockDim.x", "smoke"),
    bug("reduce-shuffle", "lane < blockDim.x / 32", "lane < blockDim.x / 64", "smoke"),
    bug("reduce-shuffle", "  __syncthreads();\n", "", "smoke"),
    bug("reduce-shuffle", "(size_t)blockIdx.x * n", "(size_t)blockIdx.x * (n + 1)", "smoke"),
    bug("reduce-shuffle", "y[blockIdx.x] = sum", "y[blockIdx.x] += sum", "smoke"),
    bug("transpose-padded", "r + j < h) tile", "r + j < h - 1) tile", "smoke"),
    bug("transpose-padded", "  __syncthreads();\n", "", "smoke"),
    bug(
        "transpose-padded",
        "tile[threadIdx.x][threadIdx.y + j];",
        "tile[threadIdx.y + j][threadIdx.x];",
        "smoke",
    ),
    bug("transpose-padded", "* h + c] =", "* w + c] =", "smoke"),
    bug("transpose-padded", "c < h && r + j < w", "c <= h && r + j < w", "post-run"),
    bug(
        "transpose-padded",
        "j < TILE; j += ROWS) if (c < w",
        "j < TILE - ROWS; j += ROWS) if (c < w",
        "smoke",
    ),
    bug("softmax-template", "sum += __expf", "sum = __expf", "smoke"),
    bug("softmax-template", "with = 16; with", "with = 8; with", "smoke"),
    bug("softmax-template", "- most), sum)", "- most), sum + 1.f)", "smoke"),
    bug("softmax-template", "i < n; i += 128) y", "i < n; i += 256) y", "smoke"),
    bug("softmax-template", "  __syncthreads();\n  v = Step", "  v = Step", "smoke"),
    bug("scan-warp", "lane >= d", "lane > d", "smoke"),
    bug("scan-warp", "v, 31)", "v, 30)", "smoke"),
    bug("scan-warp", ", lane) + carry", ", lane)", "smoke"),
    bug("scan-warp", "d < 32", "d < 16", "smoke"),
    bug("scan-warp", "base += 32", "base += 31", "smoke"),
    bug("layer-norm", "with < 32; with", "with < 16; with", "smoke"),
    bug("layer-norm", "+ 1e-5f", "+ 1e-2f", "smoke"),
    bug("layer-norm", " * g[i]", "", "smoke"),
    bug("layer-norm", "w < blockDim.x / 32", "w < blockDim.x / 32 - 1", "smoke"),
    bug("layer-norm", "  __syncthreads();\n", "", "smoke"),
    bug("layer-norm", "(row[i] - m.mean)", "row[i]", "smoke"),
    bug("layer-norm", "b.square + delta", "b.square - delta", "smoke"),
    bug("matmul-tiled", "t < k; t += TILE", "t + TILE <= k; t += TILE", "smoke"),
    bug("matmul-tiled", "    __syncthreads();\n#pragma", "#pragma", "smoke"),
    bug("matmul-tiled", "    __syncthreads();\n  }", "  }", "smoke"),
    bug("matmul-tiled", "i < TILE; ++i) sum", "i < TILE - 1; ++i) sum", "smoke"),
    bug("matmul-tiled", "col < n) c[", "col < n - 1) c[", "smoke"),
    bug("matmul-tiled", "sum += as", "sum = as", "smoke"),
    bug("stencil-plane", "w - 1 ||", "w ||", "smoke"),
    bug("stencil-plane", "at < 340", "at < 330", "smoke"),
    bug("stencil-plane", "tile[ty + 1][tx]", "tile[ty][tx]", "smoke"),
    bug("stencil-plane", "  __syncthreads();\n", "", "smoke"),
    bug("stencil-plane", "0.125f", "0.25f", "smoke"),
    bug("gemv-dp4a", "i < k / 4", "i < k / 4 - 1", "smoke"),
    bug("gemv-dp4a", "y[r] = sum", "y[r] = sum + 1", "smoke"),
    bug("gemv-dp4a", "right[i], sum)", "right[i], 0)", "cases"),
    bug("histogram-shared", "bins[b] = 0;", "bins[b] = 1;", "smoke"),
    bug(
        "histogram-shared",
        "  for (int b = threadIdx.x; b < 64; b += blockDim.x) bins[b] = 0;\n",
        "",
        "smoke",
    ),
    bug("histogram-shared", "atomicAdd(&bins[v.w], 1u);", "bins[v.w] += 1u;", "determinism"),
    bug("histogram-shared", "n / 4 * 4 + first", "n / 4 * 4 + first + 1", "smoke"),
    bug("histogram-shared", "atomicAdd(&h[b], bins[b])", "h[b] = bins[b]", "smoke"),
    bug(
        "histogram-shared",
        "b < 64; b += blockDim.x) atomicAdd",
        "b < 63; b += blockDim.x) atomicAdd",
        "smoke",
    ),
    bug("count-coalesced", "x[i] > 100", "x[i] >= 100", "smoke"),
    bug("count-coalesced", "(int)together.size()", "1", "smoke"),
    bug("dot-double", "half >= 32", "half > 32", "smoke"),
    bug("dot-double", "double sum = 0", "float sum = 0", "smoke"),
    bug("dot-double", "i < n; i += 128", "i < n; i += 127", "smoke"),
    bug("max-pool", "fmaxf(b.x, b.y)", "b.x", "smoke"),
    bug("max-pool", "2 * p + 1", "2 * p", "smoke"),
    bug("max-pool", "q >= w / 2", "q >= w / 2 - 1", "smoke"),
    bug("argmax-rows", "w < 4", "w < 3", "smoke"),
    bug("argmax-rows", "  best = across(best);\n", "", "smoke"),
    bug("cross-entropy", "logf(sum)", "log2f(sum)", "smoke"),
    bug("cross-entropy", "sum * expf(most - above) + expf(v", "sum + expf(v", "smoke"),
    bug("embedding-gather", "0.3f", "0.31f", "smoke"),
    bug("embedding-gather", "r >= rows ||", "r >= rows - 1 ||", "smoke"),
    bug("matmul-register", "i < 32; ++i", "i < 31; ++i", "cases"),
    bug("matmul-register", "av * bv.w", "av * bv.z", "smoke"),
    bug("spmv-csr", "i < start[r + 1]", "i < start[r + 1] - 1", "smoke"),
    bug("spmv-csr", "tile.size() / 2", "tile.size() / 4", "smoke"),
    bug("convolution-line", "k < 17; ++k", "k < 16; ++k", "smoke"),
    bug("convolution-line", "blockDim.x - 8", "blockDim.x - 7", "smoke"),
    bug("convolution-line", "base + at >= 0 && ", "", "post-run"),
    bug("reduce-groups", "fmaf(v, v, sum)", "fmaf(v, v, 0.f)", "smoke"),
    bug("reduce-groups", "  block.sync();\n", "", "smoke"),
    bug("reduce-groups", "parts[tile.meta_group_rank()]", "parts[0]", "smoke"),
];

/// Of a hundred bugs two may be missed.
const MISSED_PER_CENT_MAX: usize = 2;

fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/kernels")
}

/// A verdict is wanted, not a time.
fn quick(screens: Vec<Screen>) -> MeasurementPolicy {
    let policy =
        MeasurementPolicy { pairs_min: 2, pairs_max: 2, warmups: 1, budget: Milliseconds(1), ..policy() };
    policy.with_screens(screens)
}

#[test]
fn bugs_put_into_good_kernels_are_found_by_the_stage_that_should() {
    let _alone = ALONE.lock();
    let place = Place::new();
    let (mut missed, mut elsewhere) = (Vec::new(), Vec::new());
    for (number, Bug { kernel, from, to, finder }) in BUGS.iter().enumerate() {
        let home = kernels().join(kernel);
        let source = std::fs::read_to_string(home.join("candidate.cu")).unwrap();
        assert!(source.contains(from), "{kernel} has no `{from}`");
        let folder = place.subfolder(&format!("bug-{number}"));
        let path = folder.join(format!("bug-{number}.cu"));
        std::fs::write(&path, source.replacen(from, to, 1)).unwrap();
        let plan = std::fs::read_to_string(home.join("candidate.toml")).unwrap();
        std::fs::write(path.with_extension("toml"), plan).unwrap();
        let (record, checks) = run_checked(&place, &home, &path, &quick(Screen::CHEAP.to_vec()));
        let outcome = &record.outcome;
        let found: Vec<&str> = checks
            .iter()
            .filter(|one| one.finding == CheckFinding::FaultFound)
            .map(|one| one.check.name())
            .collect();
        let first = found.first().copied().unwrap_or("nothing");
        println!("{number}\t{kernel}\t{from:?} -> {to:?}\t{}\t{first}", outcome.status);
        if outcome.status == Status::Ok {
            missed.push(number);
        } else {
            assert_eq!(outcome.blame, Blame::Candidate, "{kernel} {from:?}: {outcome:?}");
            if first != *finder {
                elsewhere.push((number, first.to_owned(), *finder));
            }
        }
    }
    println!("{} bugs, {} found, missed: {missed:?}", BUGS.len(), BUGS.len() - missed.len());
    assert!(missed.len() * 100 <= BUGS.len() * MISSED_PER_CENT_MAX, "missed: {missed:?}");
    assert!(elsewhere.is_empty(), "found by another check (number, found by, expected): {elsewhere:?}");
}

#[test]
fn no_good_kernel_is_refused_by_any_stage() {
    let _alone = ALONE.lock();
    let place = Place::new();
    let mut passed = 0;
    for entry in std::fs::read_dir(kernels()).unwrap() {
        let home = entry.unwrap().path();
        let candidate = home.join("candidate.cu");
        let (record, checks) = run_checked(&place, &home, &candidate, &quick(Vec::new()));
        assert_eq!(record.outcome.status, Status::Ok, "{}: {:?}", home.display(), record.outcome);
        assert!(checks.iter().all(|one| one.finding != CheckFinding::FaultFound), "{checks:?}");
        passed += 1;
        let name = home.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap();
        println!("{passed}\t{name}\t{}\t{} checks", record.outcome.status, checks.len());
    }
    println!("{passed} good kernels, 0 refused");
    assert!(passed >= 40, "{passed}");
}
