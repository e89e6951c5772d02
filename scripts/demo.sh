#!/usr/bin/env bash
# The whole of Muster on one machine without a GPU: a coordinator and two nodes, a task, six candidates, verdicts,
# ranking, verification. Uses the binaries in $MUSTER_BIN where it is set, else builds them.
set -euo pipefail
cd "$(dirname "$0")/.."

keep=no json=no state=
while [ $# -gt 0 ]; do
  case "$1" in
    --keep) keep=yes ;;
    --json) json=yes ;;
    --state) state=${2:?--state needs a folder}; shift ;;
    *) echo "usage: scripts/demo.sh [--keep] [--json] [--state DIR]"; exit 2 ;;
  esac
  shift
done
say() { [ "$json" = yes ] || printf '\n== %s\n' "$*"; }
need() { echo "demo: $1 is missing; install it with: $2" >&2; missing=yes; }

missing=no
[ "$(uname -s)" = Linux ] || { echo "demo: this needs Linux" >&2; exit 1; }
command -v g++ >/dev/null || command -v clang++ >/dev/null || need "a C++ compiler" "apt-get install g++   (or: dnf install gcc-c++)"
if [ -z "${MUSTER_BIN:-}" ]; then
  command -v cargo >/dev/null || need "Rust" "https://rustup.rs, or set MUSTER_BIN to a folder with the three binaries"
  command -v cc >/dev/null || need "a C linker" "apt-get install gcc"
fi
[ "$missing" = no ] || exit 1

if [ -z "${MUSTER_BIN:-}" ]; then
  say "build"
  start=$SECONDS
  # One package at a time: features unify in a workspace build, and nodes are built without the index.
  cargo build --quiet --locked --release -p coordinator
  cargo build --quiet --locked --release -p agent-node
  MUSTER_BIN=${CARGO_TARGET_DIR:-$PWD/target}/release
  [ "$json" = yes ] || echo "built in $((SECONDS - start)) s"
fi
export MUSTER_BIN
muster=$MUSTER_BIN/muster
for binary in muster muster-coordinator muster-node; do
  [ -x "$MUSTER_BIN/$binary" ] || { echo "demo: $MUSTER_BIN/$binary is missing; put all three binaries there, or unset MUSTER_BIN to build them" >&2; exit 1; }
done

fresh=no
[ -n "$state" ] || { state=$(mktemp -d "${TMPDIR:-/tmp}/muster-demo.XXXXXX"); fresh=yes; }
export MUSTER_STATE=$state
form=()
[ "$json" = no ] || form=(--json)
stop() {
  code=$?
  "$muster" down >/dev/null 2>&1 || true
  if [ "$fresh" = yes ] && [ "$keep" = no ]; then rm -rf "$state"; else echo "state kept in $state" >&2; fi
  exit "$code"
}
trap stop EXIT

best=$("$MUSTER_BIN/muster-node" devices --json | grep -o '"architecture": *"cpu:[^"]*"' | head -1 | grep -o 'cpu:[^"]*')
levels=(cpu:x86-64-v2 "$best")
case "$best" in cpu:x86-64-v2 | cpu:aarch64) levels=("$best" "$best") ;; esac
classes=$(printf '%s\n' "${levels[@]}" | sort -u | paste -sd,)

start=$SECONDS
say "start a coordinator and two nodes"
if [ "${levels[0]}" = "${levels[1]}" ]; then
  [ "$json" = yes ] || echo "this machine has one level, $best: both nodes are in one class"
else
  [ "$json" = yes ] || echo "two targets of one CPU: ${levels[*]}"
fi
quiet() { if [ "$json" = yes ]; then "$@" >/dev/null; else "$@"; fi; }
quiet "$muster" up --level "${levels[0]}" --level "${levels[1]}"

say "add the sample task"
quiet "$muster" task add scripts/sample

say "submit six candidates to both"
verdicts=$state/verdicts.out
"$muster" submit matmul-f32 scripts/sample/candidates/*.cu --on "$classes" --wait "${form[@]}" >"$verdicts"
[ "$json" = yes ] || cat "$verdicts"

say "ranking, from the ledger"
ranking=$("$muster" rank matmul-f32 "${form[@]}")
[ "$json" = yes ] || echo "$ranking"

say "verify the ledger, trusting its verifier key alone"
"$muster" ledger checkpoint >/dev/null
verification=$("$muster" ledger verify "${form[@]}")
if [ "$json" = yes ]; then
  printf '{"verdicts": %s,\n"ranking": %s,\n"verification": %s,\n"seconds": %s}\n' \
    "$(cat "$verdicts")" "$ranking" "$verification" "$((SECONDS - start))"
else
  echo "$verification"
  printf '\nall of this took %s s without the build\n' "$((SECONDS - start))"
fi
