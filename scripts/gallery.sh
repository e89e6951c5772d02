#!/usr/bin/env bash
# Runs every kernel of a folder of tasks, such as tests/kernels, through a fleet of its own on one device class: which run
# and agree with their references, which are refused and why. Ends with a line `N right, N refused, N wrong`; exit code 0
# only when none is wrong. With --wrong the wrong kernels of each task instead: `N caught, N missed`, and 0 only when none
# is missed. Uses the binaries in $MUSTER_BIN where it is set, else builds them.
set -euo pipefail

usage="usage: scripts/gallery.sh [DIR] [--on CLASS] [--only PATTERN] [--wrong] [--screens LIST] [--jobs N] [--keep] [--unsafe-no-sandbox]
  DIR                   a folder of folders with task.toml and candidate.cu [tests/kernels]
  --on CLASS            device class, such as cpu:x86-64-v3 or nvidia:sm_90a [this machine's best CPU level]
  --only PATTERN        only folders whose name contains it
  --wrong               the files of wrong/ in each folder: none may pass
  --screens LIST        screens to run, such as all, or address,races-in-block [none]
  --jobs N              submissions at once [4]
  --keep                keep the state folder
  --unsafe-no-sandbox   run candidates unconfined; every record shows it"
folder='' class='' keep=no only='' jobs=4 kind=right screens=none node_flags=()
while [ $# -gt 0 ]; do
  case "$1" in
    --on) class=${2:?--on needs a class}; shift ;;
    --only) only=${2:?--only needs a pattern}; shift ;;
    --wrong) kind=wrong ;;
    --screens) screens=${2:?--screens needs a list}; shift ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    --keep) keep=yes ;;
    --unsafe-no-sandbox) node_flags+=("$1") ;;
    --help | -h) echo "$usage"; exit 0 ;;
    -*) echo "$usage" >&2; exit 2 ;;
    *) [ -z "$folder" ] || { echo "$usage" >&2; exit 2; }; folder=$1 ;;
  esac
  shift
done
die() { echo "gallery: $*" >&2; exit 1; }
[ -z "$folder" ] || folder=$(cd "$folder" && pwd) || die "no such folder"
cd "$(dirname "$0")/.."
[ -n "$folder" ] || folder=$PWD/tests/kernels

# shellcheck source=scripts/lib/fleet.sh
. scripts/lib/fleet.sh
find_binaries

state=$(mktemp -d "${TMPDIR:-/tmp}/muster-gallery.XXXXXX")
export MUSTER_STATE=$state muster class screens
stop() {
  code=$?
  trap - EXIT
  end_fleet
  if [ "$keep" = yes ]; then echo "gallery: state kept in $state" >&2; else rm -rf "$state"; fi
  exit "$code"
}
trap stop EXIT
trap 'exit 130' INT TERM
start_devices "${node_flags[@]}"

# one FILE: adds its task and waits for the verdict of this candidate; a line with name, status, and first cause or hint.
one() {
  local home name answer status cause
  home=$(dirname "$1") name=$(basename "$(dirname "$1")")
  if [ "$name" = wrong ]; then home=$(dirname "$home") name=$(basename "$home")/$(basename "$1" .cu); fi
  if ! answer=$("$muster" task add "$home" --json 2>&1); then
    printf '%-36s %-24s %s\n' "$name" task_refused "$(tr '\n' ' ' <<<"$answer" | cut -c1-200)"
    return
  fi
  answer=$("$muster" submit "$(sed -n 's/^name = "\(.*\)"/\1/p' "$home/task.toml" | head -1)" "$1" \
    --on "$class" --screens "$screens" --wait --json 2>"$MUSTER_STATE/${name//\//-}.err") || true
  status=$(grep -o '"detail": *"[a-z_]*' <<<"$answer" | head -1 | sed 's/.*"//' || true)
  cause=$(grep -o '"cause": *"[^"]*"' <<<"$answer" | head -1 | cut -c1-200 || true)
  [ -n "$status" ] || cause=$(tail -c 200 "$MUSTER_STATE/${name//\//-}.err" | tr '\n' ' ')
  printf '%-36s %-24s %s\n' "$name" "${status:-no_answer}" "$([ "$status" = ok ] || echo "$cause")"
}
export -f one
table=$state/gallery.txt
files=(-mindepth 2 -maxdepth 2 -name candidate.cu)
[ "$kind" = right ] || files=(-mindepth 3 -maxdepth 3 -path '*/wrong/*.cu')
# shellcheck disable=SC2016 # the inner shell expands it
find "$folder" "${files[@]}" -print0 | grep -z -- "$folder/[^/]*$only" | sort -z |
  xargs -0 -P "$jobs" -I{} bash -c 'one "$1"' one {} | tee "$table"
count() { grep -c -E "^[^ ]+ +($1) " "$table" || true; }
right=$(count ok) refused=$(count 'unsupported_on_device|compile_error')
total=$(wc -l <"$table")
[ "$total" -gt 0 ] || die "no folder in $folder has such a kernel"
"$muster" ledger checkpoint >/dev/null
"$muster" ledger verify >&2 || die "the ledger does not verify"
unjudged=$(count 'no_answer|task_refused|infrastructure|worker_lost')
if [ "$kind" = wrong ]; then
  caught=$((total - right - unjudged))
  echo "$caught caught, $right missed, $unjudged without a verdict on $class"
  [ "$caught" -eq "$total" ]
else
  echo "$right right, $refused refused, $((total - right - refused)) wrong on $class"
  [ "$((total - right - refused))" -eq 0 ]
fi
