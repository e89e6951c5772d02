#!/usr/bin/env bash
# Puts every right and every wrong kernel of tests/kernels under all screens: docs/SCREENS.md. Prints a table and ends
# with `N wrong kernels caught of M, K false alarms of L`; exit code 0 only when all are caught and no right one is
# refused. Uses the binaries in $MUSTER_BIN where it is set, else builds them.
set -euo pipefail

usage="usage: scripts/screens-table.sh [--compiler PATH] [--only PARTS] [--json] [DIR]
  --compiler PATH   the C++ compiler [g++, else clang++]
  --only PARTS      only tasks whose name contains one of these, separated by commas
  --json            one JSON document on standard output
  DIR               a folder of task folders [tests/kernels]"
folder='' options=()
while [ $# -gt 0 ]; do
  case "$1" in
    --compiler | --only) options+=("$1" "${2:?$1 needs a value}"); shift ;;
    --json) options+=("$1") ;;
    --help | -h) echo "$usage"; exit 0 ;;
    -*) echo "$usage" >&2; exit 2 ;;
    *) [ -z "$folder" ] || { echo "$usage" >&2; exit 2; }; folder=$(cd "$1" && pwd) ;;
  esac
  shift
done
cd "$(dirname "$0")/.."
die() { echo "screens-table: $*" >&2; exit 1; }

[ "$(uname -s)" = Linux ] || die "this needs Linux"
if [ -z "${MUSTER_BIN:-}" ]; then
  command -v cargo >/dev/null || die "Rust is missing: see https://rustup.rs, or set MUSTER_BIN to a folder with the binaries"
  cargo build --quiet --locked --release -p agent-node >&2
  MUSTER_BIN=${CARGO_TARGET_DIR:-$PWD/target}/release
fi
[ -x "$MUSTER_BIN/muster-node" ] || die "$MUSTER_BIN has no muster-node"
exec "$MUSTER_BIN/muster-node" bench screens "${folder:-tests/kernels}" "${options[@]}"
