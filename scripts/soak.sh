#!/usr/bin/env bash
# Kills the coordinator ten times, at fault points and at random moments, while 200 cells are queued, and then counts:
# every accepted cell has one final record, nothing acknowledged is lost, nothing was done twice by a node that lived.
# Uses the binaries in $MUSTER_BIN where it is set, else debug builds, which honour fault points.
set -euo pipefail
cd "$(dirname "$0")/.."

cells=200 kills=10 seed=$RANDOM level=cpu:x86-64-v2 keep=no
while [ $# -gt 0 ]; do
  case "$1" in
    --cells) cells=${2:?}; shift ;;
    --kills) kills=${2:?}; shift ;;
    --seed) seed=${2:?}; shift ;;
    --level) level=${2:?}; shift ;;
    --keep) keep=yes ;;
    *) echo "usage: scripts/soak.sh [--cells N] [--kills N] [--seed N] [--level ARCHITECTURE] [--keep]"; exit 2 ;;
  esac
  shift
done
if [ -z "${MUSTER_BIN:-}" ]; then
  cargo build --quiet --locked -p coordinator
  cargo build --quiet --locked -p agent-node
  MUSTER_BIN=${CARGO_TARGET_DIR:-$PWD/target}/debug
fi
export MUSTER_BIN
folder=$(mktemp -d "${TMPDIR:-/tmp}/muster-soak.XXXXXX")
export MUSTER_STATE=$folder/state
muster=$MUSTER_BIN/muster coordinator='' nodes=()
stop() {
  code=$?
  for process in $coordinator "${nodes[@]}"; do kill -TERM "$process" 2>/dev/null || true; done
  wait 2>/dev/null || true
  if [ "$keep" = yes ] || [ "$code" -ne 0 ]; then echo "state kept in $folder" >&2; else rm -rf "$folder"; fi
  exit "$code"
}
trap stop EXIT
RANDOM=$seed
echo "soak: seed $seed, $cells cells, $kills kills"

alive() { kill -0 "$1" 2>/dev/null; }
field() { grep -o "\"$1\": *\"\\{0,1\\}[^,\"}]*" | head -1 | sed 's/^"[^"]*": *"\{0,1\}//'; }
status() { "$muster" --json status "$@" 2>/dev/null; }
await() { # await WHAT COMMAND…: at most ten minutes
  local what=$1 end=$((SECONDS + 600)); shift
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || { echo "soak: waited in vain for $what" >&2; exit 1; }
    sleep 0.1
  done
}
listen=127.0.0.1:0
start() { # start [FAULT]
  local fault=()
  [ $# -eq 0 ] || fault=("MUSTER_FAULT=$1")
  env "${fault[@]}" "$MUSTER_BIN/muster-coordinator" --state "$MUSTER_STATE" --listen "$listen" \
    >>"$folder/coordinator.log" 2>&1 &
  coordinator=$!
  disown # the shell would comment on each death
}
answers() { ! alive "$coordinator" || status >/dev/null; }
finished() { status "$submission" | grep -c '"state": *"finished"' || true; }
beyond() { ! alive "$coordinator" || [ "$(finished)" -ge "$1" ]; }
gone() { ! alive "$coordinator"; }
ready() { [ "$(status | field nodes_ready)" = 2 ]; }

start; await "the coordinator" answers
listen=$(status | field listening)
for index in 0 1; do
  "$muster" --json node invite | field text >"$folder/invite-$index"
  "$MUSTER_BIN/muster-node" run --state "$folder/node-$index" --name "node-$index" --level "$level" \
    --invite-file "$folder/invite-$index" >"$folder/node-$index.log" 2>&1 &
  nodes+=($!)
done
await "two nodes" ready
"$muster" task add tests/fixtures/saxpy >/dev/null 2>"$folder/warnings"
mkdir "$folder/candidates"
for index in $(seq "$cells"); do
  { cat tests/fixtures/saxpy/good.cu; echo "// $seed $index"; } >"$folder/candidates/soak-$index.cu"
done
answer=$("$muster" --json submit saxpy "$folder"/candidates/*.cu --on "$level" 2>"$folder/warnings")
submission=$(field submission <<<"$answer")
begun=$SECONDS

points=(journal-before-write journal-after-sync wal-before-write wal-after-sync integrate-before-bundles
  integrate-before-checkpoint wal-before-trim)
next=$((RANDOM % ${#points[@]}))
# Released binaries ignore fault points; a name of no point ends those that honour them.
faults=no
kill -KILL "$coordinator"; await "its end" gone
start none; await "an answer" answers; if alive "$coordinator"; then kill -KILL "$coordinator"; else faults=yes; fi
await "its end" gone
for kill in $(seq "$kills"); do
  # Every third kill comes at a random moment, the others at each point in turn after a random number of passes.
  if [ "$faults" = yes ] && [ $((kill % 3)) -ne 0 ]; then
    point=${points[$((next++ % ${#points[@]}))]}:$((RANDOM % 12 + 2))
    start "$point"; await "the coordinator to die at $point" beyond "$cells"
    # With no cells left a point may never be passed again.
    if gone; then echo "soak: kill $kill at $point"; else
      kill -KILL "$coordinator"; echo "soak: kill $kill after all cells, $point was not passed"
    fi
  else
    start; await "the coordinator" answers
    goal=$(($(finished) + 1 + RANDOM % 20))
    [ "$goal" -lt "$cells" ] || goal=$cells
    await "$goal cells" beyond "$goal"
    kill -KILL "$coordinator"
    echo "soak: kill $kill after $goal cells"
  fi
  await "its end" gone
done
start; await "the coordinator" answers
await "all cells" beyond "$cells"

for process in "${nodes[@]}"; do alive "$process" || { echo "soak: a node died" >&2; exit 1; }; done
"$muster" ledger checkpoint >/dev/null
report=$("$muster" --json ledger verify)
closed=$(field cells_closed <<<"$report") open=$(field cells_open <<<"$report") size=$(field size <<<"$report")
signed=$(cat "$folder"/node-?.log | grep -c "attempt signed")
promised=$(find "$folder"/node-?/promises -name '*.json' -exec grep -l accepted {} + | wc -l)
done_cells=$(finished)
echo "soak: $done_cells of $cells cells finished, $closed closed and $open open in the ledger, $signed attempts run," \
  "$promised promises held, $kills kills, $size entries, verified, $((SECONDS - begun)) s, seed $seed"
[ "$done_cells" = "$cells" ] && [ "$closed" = "$cells" ] && [ "$open" = 0 ] && [ "$signed" = "$cells" ] &&
  [ "$promised" = "$cells" ]
