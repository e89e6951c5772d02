#!/usr/bin/env bash
# Puts this machine's NVIDIA GPU to the test: a coordinator and a node in a fresh state folder, two small tasks, verdicts,
# ranking and a verified ledger, packed for reading elsewhere. Reads the GPU's settings and changes none of them.
# Uses the binaries in $MUSTER_BIN where it is set, else builds them.
set -euo pipefail
cd "$(dirname "$0")/.."

usage="usage: scripts/device-check.sh [--out DIR] [--json] [--record-only] [--unsafe-no-sandbox] [--keep]
                               [--throughput [N]] [--hostile [N]] [--repeat [N]] [--two-gpus [N]] [--standby N]
  --out DIR             where evidence goes: log files and ledger.tar [\$OUT, else a new folder in /tmp]
  --json                one JSON document on standard output
  --record-only         no conformance suite, no ranking: only the records
  --unsafe-no-sandbox   run candidates unconfined; every record shows it
  --keep                keep the state folder, and go on when the conformance suite fails
  --repeat [3]          the same candidate N times: medians within 0.5 %
  --throughput [40]     candidates an hour with N unique sources, compiled for each, from the cache, and without stand-bys
  --hostile [25]        N hanging and N faulting candidates between N good ones (100: some minutes)
  --two-gpus [40]       N candidates on one GPU and on all
  --standby N           workers that the node keeps ready for each GPU"
out=${OUT:-} json=no record_only=no keep=no node_flags=() run_flags=()
repeat=0 throughput=0 hostile=0 two=0
while [ $# -gt 0 ]; do
  case "$1" in
    --out) out=${2:?--out needs a folder}; shift ;;
    --json) json=yes ;;
    --record-only) record_only=yes ;;
    --unsafe-no-sandbox) node_flags+=("$1") ;;
    --keep) keep=yes ;;
    --repeat) repeat=3; case "${2:-}" in [0-9]*) repeat=$2; shift ;; esac ;;
    --throughput) throughput=40; case "${2:-}" in [0-9]*) throughput=$2; shift ;; esac ;;
    --hostile) hostile=25; case "${2:-}" in [0-9]*) hostile=$2; shift ;; esac ;;
    --two-gpus) two=40; case "${2:-}" in [0-9]*) two=$2; shift ;; esac ;;
    --standby) run_flags+=(--standby "${2:?--standby needs a number}"); shift ;;
    *) echo "$usage"; exit 2 ;;
  esac
  shift
done
say() { [ "$json" = yes ] || printf '\n== %s\n' "$*"; }
show() { if [ "$json" = yes ]; then cat >/dev/null; else cat; fi; }
die() { echo "device-check: $*" >&2; exit 1; }

[ -e /dev/nvidiactl ] || die "there is no NVIDIA GPU here (/dev/nvidiactl is missing); load the driver, or give the container its devices"
command -v nvidia-smi >/dev/null || echo "device-check: nvidia-smi is missing; its facts are left out" >&2
say "the binaries"
# shellcheck source=scripts/lib/fleet.sh
. scripts/lib/fleet.sh
find_binaries

[ -n "$out" ] || out=$(mktemp -d "${TMPDIR:-/tmp}/muster-device.XXXXXX")
mkdir -p "$out" && out=$(cd "$out" && pwd)
state=$(mktemp -d "${TMPDIR:-/tmp}/muster-state.XXXXXX")
export MUSTER_STATE=$state
stop() {
  code=$?
  trap - EXIT
  end_fleet
  cp "$state/coordinator.log" "$out/" 2>/dev/null || true
  if [ "$code" -ne 0 ]; then
    echo "device-check: failed; logs are in $out. The node's last words:" >&2
    tail -n 20 "$out/node.log" >&2 2>/dev/null || true
  fi
  if [ "$keep" = yes ]; then echo "state kept in $state" >&2; else rm -rf "$state"; fi
  exit "$code"
}
trap stop EXIT

facts=name,uuid,driver_version,compute_cap,memory.total,power.limit,ecc.mode.current,mig.mode.current,clocks.sm,temperature.gpu,power.draw
nvidia-smi --query-gpu="$facts" --format=csv >"$out/nvidia-smi.csv" 2>&1 || true
say "the GPU"
show <"$out/nvidia-smi.csv"

check=null
if [ "$record_only" = no ]; then
  say "conformance suite"
  "$node" check-cuda --folder "$out/check" --json "${node_flags[@]}" >"$out/check-cuda.json" 2>"$out/check-cuda.log" ||
    { cat "$out/check-cuda.json" "$out/check-cuda.log" >&2
      "$node" check-cuda --folder "$out/unconfined" --unsafe-no-sandbox >"$out/check-unconfined.txt" 2>&1 && echo "device-check: without the sandbox the suite passes" >&2
      [ "$keep" = yes ] || die "the conformance suite failed (exit code 2: no device; 1: a check failed)"; }
  check=$(cat "$out/check-cuda.json")
  grep -o '"check":"[^"]*","device":"[^"]*","text":"[^"]*","verdict":"[^"]*"' "$out/check-cuda.json" | show
fi

say "start a coordinator and a node"
"$muster" up --no-node >"$out/up.log"
mkdir -p "$state/node" && printf '[devices]\ncpu = false\n' >"$state/node.toml"
"$muster" node invite >"$state/invite"
start_node() {
  "$node" run --state "$state/node" --name device-check --config "$state/node.toml" --invite-file "$state/invite" \
    "${node_flags[@]}" "${run_flags[@]}" "$@" >>"$out/node.log" 2>&1 &
  node_pid=$!
}
# The class and the UUIDs of the GPUs on offer, once there are some.
await_node() {
  class=
  for _ in $(seq 300); do
    class=$("$muster" node list --json | grep -o '"architecture": *"nvidia:[^"]*"' | head -1 | grep -o 'nvidia:[^"]*' || true)
    if [ -n "$class" ] && "$muster" node list | grep -q ' ready '; then break; fi
    kill -0 "$node_pid" 2>/dev/null || die "the node ended before it joined"
    sleep 0.2
  done
  [ -n "$class" ] || die "the node offers no GPU within a minute"
  # The first GPU alone, also where there are several.
  one="architecture=$class&device.uuid=$("$muster" node list --json | grep -oE '"id": *"GPU-[^"]*"' | sort -u | head -1 | grep -o 'GPU-[^"]*')"
}
restart_node() {
  if kill "$node_pid"; then wait "$node_pid" || true; fi
  for _ in $(seq 100); do "$muster" node list | grep -q ' ready ' || break; sleep 0.1; done
  start_node "$@"
  await_node
}
start_node
await_node
# What one context for both sides of a timing must give, in one table.
table() {
  { grep -o '"baseline_ps":[^]]*\],"setting":"[^"]*"' "$out/check-cuda.json" || true; } | sed 's/["{}]//g' | while IFS= read -r row; do
    field() { printf '%s' "$row" | grep -o "$1:[^,]*" | head -1 | cut -d: -f2-; }
    ratio=$(printf '%s' "$row" | grep -o 'ratio_ppm_p10_p50_p90:\[[^]]*\]' | cut -d: -f2)
    setting=$(printf '%s' "$row" | grep -o 'setting:.*' | cut -d: -f2-)
    printf '%-24s %9s elements  %12s ps  %12s ps  p10, p50, p90 of the ratio in ppm %s\n' \
      "$setting" "$(field elements)" "$(field baseline_ps)" "$(field candidate_ps)" "$ratio"
  done
  grep -o '"clock.event_floor_ps":[^}]*}' "$out/check-cuda.json" 2>/dev/null | sort | uniq -c | head -3 || true
  grep -o '"cache.l2_flush_bytes":[^}]*}' "$out/check-cuda.json" 2>/dev/null | sort | uniq -c | head -3 || true
}
say "one kernel against itself: two processes, and one context"
[ "$record_only" = yes ] || table | tee "$out/pairs.txt" | show
say "candidates on $class"
for sample in saxpy-f32:scripts/sample-saxpy:'same strided vectorised' matmul-f32:scripts/sample:'slower tiled vectorised overrun'; do
  IFS=: read -r task folder names <<<"$sample"
  "$muster" task add "$folder" >>"$out/up.log"
  candidates=()
  for name in $names; do candidates+=("$folder/candidates/$name.cu"); done
  # Exit code 5: a cell ended without a verdict; the answer says which, and is kept.
  "$muster" submit "$task" "${candidates[@]}" --on "$class" --wait --json >"$out/$task.json" || { cat "$out/$task.json" >&2; die "$task has no verdicts"; }
  "$muster" rank "$task" >"$out/$task.rank.txt"
  "$muster" rank "$task" --json >"$out/$task.rank.json"
  [ "$record_only" = yes ] || { say "$task"; show <"$out/$task.rank.txt"; }
done

# Candidates that reach for the baseline's buffers while both are timed: never right, never at the task's cost.
say "hostile neighbours"
for name in spoiler thief; do
  "$muster" submit saxpy-f32 "scripts/sample-saxpy/hostile/$name.cu" --on "$class" --wait --json >"$out/$name.json" || { cat "$out/$name.json" >&2; die "$name has no verdict"; }
done
"$muster" rank saxpy-f32 >"$out/hostile.rank.txt"
grep -E 'spoiler|thief' "$out/hostile.rank.txt" | tee "$out/hostile.txt" | show || true
if grep -qE "the task's (baseline|reference)" "$out/spoiler.json" "$out/thief.json" "$out/hostile.rank.txt"; then die "the task was blamed for a hostile candidate"; fi
for name in spoiler thief; do
  grep -q '"detail": *"ok"' "$out/$name.json" && die "$name passed as ok"
done
if [ $((repeat + throughput + hostile + two)) -gt 0 ]; then
  # shellcheck source=scripts/device-phases.sh
  . scripts/device-phases.sh
  [ "$repeat" = 0 ] || phase_repeat "$repeat"
  [ "$throughput" = 0 ] || phase_throughput "$throughput"
  [ "$hostile" = 0 ] || phase_hostile "$hostile"
  [ "$two" = 0 ] || phase_two "$two"
  say "verdicts"
  show <"$out/verdicts.txt"
fi
"$muster" node list >"$out/nodes.txt"
say "the nodes"
show <"$out/nodes.txt"
say "the ledger, trusting its verifier key alone"
"$muster" ledger checkpoint >"$out/checkpoint"
"$muster" ledger vkey >"$out/vkey"
"$muster" ledger signers >"$out/signers"
"$muster" ledger verify --json >"$out/verify.json"
"$muster" ledger verify | show
tar -C "$state" -cf "$out/ledger.tar" ledger
say "evidence: $out (ledger.tar, vkey, signers, checkpoint, verdicts, logs)"
[ "$json" = no ] || printf '{"class": "%s",\n"check": %s,\n"saxpy": %s,\n"saxpy_rank": %s,\n"matmul": %s,\n"matmul_rank": %s,\n"verify": %s,\n"phases": %s,\n"out": "%s"}\n' "$class" "$check" \
  "$(cat "$out/saxpy-f32.json")" "$(cat "$out/saxpy-f32.rank.json")" "$(cat "$out/matmul-f32.json")" "$(cat "$out/matmul-f32.rank.json")" "$(cat "$out/verify.json")" "$(declare -F phases_json >/dev/null && phases_json || echo '{}')" "$out"
