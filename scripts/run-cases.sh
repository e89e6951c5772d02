#!/usr/bin/env bash
# Runs every case of a folder through a fleet of its own and compares the verdicts with the answers: docs/CASES.md.
# Ends with a line `N passed, N failed, N skipped`; exit code 0 only when none failed. Uses the binaries in $MUSTER_BIN
# where it is set, else builds them; needs no Python and no jq.
set -euo pipefail

usage="usage: scripts/run-cases.sh DIR [--on CLASS] [--json] [--only PATTERN] [--keep] [--unsafe-no-sandbox]
  DIR                   a folder of case folders, or one case folder
  --on CLASS            device class, such as cpu:x86-64-v3 or nvidia:sm_90a [this machine's best CPU level]
  --json                one JSON document on standard output
  --only PATTERN        only cases whose name contains it; * stands for anything
  --keep                keep the state folder
  --unsafe-no-sandbox   run candidates unconfined; every record shows it"
folder='' class='' keep=no form=() only=() node_flags=()
while [ $# -gt 0 ]; do
  case "$1" in
    --on) class=${2:?--on needs a class}; shift ;;
    --json) form=(--json) ;;
    --only) only=(--only "${2:?--only needs a pattern}"); shift ;;
    --keep) keep=yes ;;
    --unsafe-no-sandbox) node_flags+=("$1") ;;
    --help | -h) echo "$usage"; exit 0 ;;
    -*) echo "$usage" >&2; exit 2 ;;
    *) [ -z "$folder" ] || { echo "$usage" >&2; exit 2; }; folder=$1 ;;
  esac
  shift
done
[ -n "$folder" ] || { echo "$usage" >&2; exit 2; }
die() { echo "run-cases: $*" >&2; exit 1; }
[ -d "$folder" ] || die "$folder is no folder"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")/.."

# shellcheck source=scripts/lib/fleet.sh
. scripts/lib/fleet.sh
find_binaries

state=$(mktemp -d "${TMPDIR:-/tmp}/muster-cases.XXXXXX")
export MUSTER_STATE=$state
stop() {
  code=$?
  trap - EXIT
  end_fleet
  if [ "$keep" = yes ]; then echo "run-cases: state kept in $state" >&2; else rm -rf "$state"; fi
  exit "$code"
}
trap stop EXIT
trap 'exit 130' INT TERM

start_devices "${node_flags[@]}"
"$muster" case run "$folder" --on "$class" "${only[@]}" "${form[@]}"
