#!/usr/bin/env bash
# Everything that CI runs, in one command. --quick (every commit, within 3 minutes): format, lints, unit tests
# of the packages. Full (before a push): also whole-fleet tests, docs, dependency rules, scripts' own lint.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
mode=full
case "${1:-}" in
  "") ;;
  --quick) mode=quick ;;
  *) echo "usage: scripts/check.sh [--quick]"; exit 2 ;;
esac

failed=() skipped=() unsteady=()
# Where cargo puts what it builds, which a setting of its own may have moved.
target=$(cargo metadata --no-deps --format-version 1 | grep -o '"target_directory":"[^"]*"' | cut -d'"' -f4)
step() { # step NAME COMMAND…
  local name=$1 start=$SECONDS; shift
  echo "== $name"
  if "$@"; then echo "== $name: ok, $((SECONDS - start)) s"; else failed+=("$name"); echo "== $name: FAILED"; fi
}
tool() { # tool COMMAND INSTALL-LINE NAME COMMAND…
  local need=$1 install=$2; shift 2
  if command -v "$need" >/dev/null 2>&1; then step "$@"; else
    skipped+=("$1"); echo "== $1: SKIPPED, $need is absent; install it with: $install"; fi
}
python_vectors() { python3 tests/python/check_generator.py; }
# Code 77: numpy, scipy or statsmodels is not here; the Rust tests read the kept numbers all the same.
python_statistics() { python3 tests/python/check_statistics.py; local code=$?; [ $code -eq 77 ] || return $code; }
# The default build is for the first level of x86-64; the vectors must not depend on what later levels can do.
generator_levels() {
  local level
  [ "$(uname -m)" = x86_64 ] || { echo "only x86-64 has levels"; return 0; }
  for level in x86-64-v2 x86-64-v3; do
    if [ "$level" = x86-64-v3 ] && ! grep -q -w avx2 /proc/cpuinfo; then echo "this CPU cannot run $level"; continue; fi
    RUSTFLAGS="-Ctarget-cpu=$level" rust_tests -p fleet-config --lib \
      --target-dir "$target/$level" generator:: || return 1
  done
}
# Real NVRTC where there is one; code 2 says that there is none, and a test that needs it then passes without having run.
gpu_kernels() {
  "$target/debug/muster-node" compile --task scripts/sample \
    --candidate scripts/sample/candidates/tiled.cu --arch sm_80,sm_89,sm_90a,sm_100a,sm_120a
}
gpu_compiling() {
  local name="kernels for five GPU architectures" answer status=0
  answer=$(gpu_kernels 2>&1) || status=$?
  if [ "$status" = 2 ]; then
    skipped+=("$name, and every test that needs NVRTC")
    echo "== $name: SKIPPED, and with it every test that needs NVRTC: $answer"
  else
    printf '%s\n' "$answer"
    step "$name" test "$status" = 0
  fi
}
fuzz_lock() { cargo metadata --locked --format-version 1 --manifest-path tests/fuzz/Cargo.toml >/dev/null; }
tests_log=$(mktemp); trap 'rm -f "$tests_log"' EXIT
rust_tests() { cargo test --locked --no-fail-fast "$@" 2>&1 | tee -a "$tests_log"; }
# Whole fleets run in these tests, on machines that other work shares: a few that fail get one more try, alone. Those that
# pass it are named and counted apart, since a test that fails sometimes is to be mended too.
failed_tests() { sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$1" | sort -u; }
all_tests() {
  local log; log=$(mktemp)
  rust_tests --workspace && return 0
  mapfile -t again < <(failed_tests "$tests_log")
  if [ "${#again[@]}" -ge 1 ] && [ "${#again[@]}" -le 5 ]; then
    echo "== once more, alone: ${again[*]}"
    if cargo test --locked --workspace --no-fail-fast -- --exact --test-threads=1 "${again[@]}" 2>&1 | tee "$log" &&
      [ "$(awk '/^test result:/ {n += $4} END {print n + 0}' "$log")" -ge "${#again[@]}" ]; then
      unsteady=("${again[@]}")
      return 0
    fi
  fi
  return 1
}

step "format" cargo fmt --all -- --check
step "lints" cargo clippy --locked --workspace --all-targets -- -D warnings
if [ "$mode" = quick ]; then
  step "unit tests" rust_tests --workspace --lib
  step "architecture" rust_tests -p fleet-tests --test architecture
else
  step "build" cargo build --locked --workspace --bins
  gpu_compiling
  step "tests" all_tests
  step "generator at later levels" generator_levels
  # A workspace of its own, built for fuzzing alone: what it names must still be what is here.
  step "lock file of the fuzzer" fuzz_lock
  step "docs" env RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items -q
  tool python3 "apt-get install python3" "generator against Python" python_vectors
  tool python3 "apt-get install python3" "statistics against scipy" python_statistics
  tool cargo-deny "cargo install --locked cargo-deny" "dependency rules" \
    cargo deny --log-level error check bans licenses sources
  tool shellcheck "apt-get install shellcheck" "shell scripts" shellcheck -x scripts/*.sh scripts/lib/*.sh .ci/run
fi

# What each failed test said, once more at the end: the end is what a reader of a long log sees.
awk '/^failures:$/ {inside = 0} /^---- .* stdout ----$/ {inside = 1; lines = 0} inside && lines++ < 40' "$tests_log"
passed=$(awk '/^test result:/ {n += $4} END {print n + 0}' "$tests_log")
broken=$(awk '/^test result:/ {n += $6} END {print n + 0}' "$tests_log")
passed=$((passed + ${#unsteady[@]})) broken=$((broken - ${#unsteady[@]}))
for name in "${unsteady[@]}"; do echo "UNSTEADY: $name failed first and passed alone"; done
# Tests say what this machine cannot give past the capture of their output.
while IFS= read -r what; do skipped+=("$what"); done < <(grep -a -o 'SKIPPED: .*' "$tests_log" | sed 's/^SKIPPED: //' | sort -u)
for name in "${skipped[@]}"; do echo "SKIPPED: $name"; done
for name in "${failed[@]}"; do echo "FAILED: $name"; done
# A failed step that is no counted test (lints, docs) counts as one failure, so that the line never hides it.
[ "${#failed[@]}" -eq 0 ] || [ "$broken" -gt 0 ] || broken=${#failed[@]}
echo "$passed passed, $broken failed, ${#skipped[@]} skipped$([ "${#unsteady[@]}" -eq 0 ] || echo ", ${#unsteady[@]} of the passed at the second try")"
[ "${#failed[@]}" -eq 0 ]
