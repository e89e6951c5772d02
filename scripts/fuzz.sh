#!/usr/bin/env bash
# Fuzzes the readers of outside bytes with coverage guidance, on the stable toolchain. Each target runs for N seconds,
# one after another, on one core. What is new and worth keeping stays in the corpus below the target folder; an input
# that breaks a target is kept beside it and named. Then copy it to tests/fuzz/regressions/TARGET/ and mend the cause.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
seconds=60 targets=() list='' build=1
usage() { echo "usage: scripts/fuzz.sh [--seconds N] [--list] [--no-build] [TARGET…]   (no target: all of them)"; }
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds) shift; seconds=${1:-} ;;
    --list) list=1 ;;
    --no-build) build='' ;;
    --help|-h) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) targets+=("$1") ;;
  esac
  shift
done
[[ "$seconds" =~ ^[1-9][0-9]*$ ]] || { usage >&2; exit 2; }

# Coverage of edges and compared values, as libFuzzer reads it. The flags go to the target alone, not to build scripts.
home=${MUSTER_FUZZ_HOME:-${CARGO_TARGET_DIR:-$PWD/target}/fuzz}
triple=$(rustc -vV | sed -n 's/^host: //p')
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
coverage+=" -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing"
if [ -n "$build" ]; then
  RUSTFLAGS="$coverage" CARGO_TARGET_DIR="$home/build" \
    cargo build --locked --release --manifest-path tests/fuzz/Cargo.toml --target "$triple" || exit 2
fi
# A copy, so that a build meanwhile does not change what runs.
fuzzer=$(mktemp "$home/fuzzer.XXXXXX") || exit 2
trap 'rm -f "$fuzzer"' EXIT
cp "$home/build/$triple/release/fuzz" "$fuzzer" && chmod +x "$fuzzer" || exit 2
declare -A length
all=()
while read -r name most; do length[$name]=$most; all+=("$name"); done < <(MUSTER_FUZZ_LIST=1 "$fuzzer" 2>/dev/null)
if [ -n "$list" ]; then printf '%s\n' "${all[@]}"; exit 0; fi
[ "${#targets[@]}" -gt 0 ] || targets=("${all[@]}")

total_runs=0 total_new=0 total_crashes=0 total_seconds=0
stat() { sed -n "s/^stat::$1: *//p" "$2" | tail -1; }
printf '%-16s %8s %12s %8s %8s %8s\n' target seconds executions new corpus crashes
for target in "${targets[@]}"; do
  [ -n "${length[$target]:-}" ] || { echo "no target \`$target\`; scripts/fuzz.sh --list names them" >&2; exit 2; }
  corpus=$home/corpus/$target seeds=$home/seeds/$target found=$home/found/$target log=$home/$target.log
  rm -rf "$seeds"; mkdir -p "$corpus" "$seeds" "$found"
  MUSTER_FUZZ_TARGET=$target MUSTER_FUZZ_SEEDS=$seeds "$fuzzer" 2>"$log" || { cat "$log" >&2; exit 2; }
  before=$(find "$found" -type f | wc -l)
  kept=tests/fuzz/regressions/$target; [ -d "$kept" ] || kept=
  start=$SECONDS
  MUSTER_FUZZ_TARGET=$target "$fuzzer" -max_total_time="$seconds" -max_len="${length[$target]}" -timeout=60 -report_slow_units=60 \
    -rss_limit_mb=2048 -malloc_limit_mb=1024 -print_final_stats=1 -artifact_prefix="$found/" \
    "$corpus" "$seeds" ${kept:+"$kept"} >"$log" 2>&1
  took=$((SECONDS - start))
  crashes=$(($(find "$found" -type f | wc -l) - before))
  runs=$(stat number_of_executed_units "$log"); new=$(stat new_units_added "$log")
  total_runs=$((total_runs + ${runs:-0})); total_new=$((total_new + ${new:-0}))
  total_crashes=$((total_crashes + crashes)); total_seconds=$((total_seconds + took))
  printf '%-16s %8s %12s %8s %8s %8s\n' "$target" "$took" "${runs:-?}" "${new:-?}" "$(find "$corpus" -type f | wc -l)" "$crashes"
  [ "$crashes" -eq 0 ] || { grep -a -m3 -E 'panicked at|^==[0-9]+== ERROR|SUMMARY' -A1 "$log"; find "$found" -type f -newer "$seeds"; }
done
echo "$total_runs executions of ${#targets[@]} targets in $total_seconds s, $total_new new inputs, $total_crashes crashes"
[ "$total_crashes" -eq 0 ]
