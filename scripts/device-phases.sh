# shellcheck shell=bash
# shellcheck disable=SC2154 # what is not assigned here is of scripts/device-check.sh
# Further phases of scripts/device-check.sh, which sources this: each submits, waits for a bounded time, and sums up what
# the ledger says about it (`muster bench attempts`). A phase that runs out of time says so and is summed up as far as it came.

phases=()

# The ledger's size, with everything that was acknowledged in it.
leaves() {
  "$muster" ledger checkpoint >/dev/null
  "$muster" status --json | grep -o '"ledger_size": *[0-9]*' | grep -o '[0-9]*$'
}

# submitted LABEL SECONDS ARGUMENTS…: one submission, waited for at most so long.
submitted() {
  local label=$1 limit=$2 code=0
  shift 2
  timeout "$limit" "$muster" submit "$@" --wait --json >>"$out/$label.json" 2>"$out/$label.err" || code=$?
  if [ "$code" = 124 ]; then
    echo "device-check: $label was not finished within $limit s; what came is summed up" | tee -a "$out/limits.txt" >&2
    local id
    id=$(grep -oE '[0-9a-f]{64}' "$out/$label.err" | head -1 || true)
    [ -z "$id" ] || "$muster" cancel "$id" >/dev/null 2>&1 || true
  elif [ "$code" != 0 ]; then
    echo "device-check: $label ended with exit code $code: $(tail -c 400 "$out/$label.err")" | tee -a "$out/limits.txt" >&2
  fi
}

# summed LABEL LEAF: what the attempts from a leaf on say.
summed() {
  "$muster" ledger checkpoint >/dev/null
  "$muster" bench attempts --from "$2" --json >"$out/$1.attempts.json"
  "$muster" bench attempts --from "$2" >"$out/$1.attempts.txt"
  phases+=("$1")
  say "$1"
  show <"$out/$1.attempts.txt"
}

# One number of a summary.
number() { grep -oE "\"$2\": *[0-9.]+" "$out/$1.attempts.json" | head -1 | grep -oE '[0-9.]+$' || echo 0; }
# How many attempts of a summary ended so.
ended() { grep -o '"statuses": *{[^}]*}' <(tr -d '\n' <"$out/$1.attempts.json") | grep -oE "\"$2\": *[0-9]+" | grep -oE '[0-9]+$' || echo 0; }

# verdict WHAT HOLDS: one line, kept for the end.
verdict() { printf '%-8s %s\n' "$2" "$1" | tee -a "$out/verdicts.txt" | show; }

# variants FOLDER SOURCE PREFIX COUNT: files that compile to the same and are other candidates.
variants() {
  local number
  mkdir -p "$1"
  for number in $(seq -f '%04g' "$4"); do
    { cat "$2"; printf '\n// %s %s\n' "$3" "$number"; } >"$1/$3-$number.cu"
    [ ! -e "${2%.cu}.toml" ] || cp "${2%.cu}.toml" "$1/$3-$number.toml"
  done
}

# The same candidate again and again: its medians must agree within half a percent.
phase_repeat() {
  local from
  from=$(leaves)
  for _ in $(seq "$1"); do submitted repeat 60 matmul-f32 scripts/sample/candidates/tiled.cu --on "$one" --fresh; done
  summed repeat "$from"
  local spans
  spans=$(grep -oE '"candidate_span_ppm": *[0-9]+' "$out/repeat.attempts.json" | grep -oE '[0-9]+$' | sort -n | tail -1 || true)
  verdict "repeat: $(ended repeat ok) of $1 ok, medians at most ${spans:-?} ppm apart (limit 5000)" \
    "$([ "$(ended repeat ok)" = "$1" ] && [ "${spans:-999999}" -le 5000 ] && echo holds || echo FAILS)"
}

# Candidates an hour on one GPU, 10 warm-ups and 100 pairs over three cases: compiled for each, then from the cache, then
# from the cache on a node without stand-by workers.
phase_throughput() {
  local from files="$out/throughput"
  variants "$files" scripts/sample/candidates/tiled.cu unique "$1"
  from=$(leaves)
  submitted throughput-cold 120 matmul-f32 "$files"/*.cu --on "$one"
  summed throughput-cold "$from"
  from=$(leaves)
  submitted throughput-warm 100 matmul-f32 "$files"/*.cu --on "$one" --fresh
  summed throughput-warm "$from"
  restart_node --standby 0
  from=$(leaves)
  # shellcheck disable=SC2012,SC2046 # names of our own making, without blanks
  submitted throughput-no-standby 60 matmul-f32 $(ls "$files"/*.cu | head -n $((($1 + 3) / 4))) --on "$one" --fresh
  summed throughput-no-standby "$from"
  restart_node
  verdict "throughput: $(number throughput-cold per_hour) an hour cold, $(number throughput-warm per_hour) warm (goal 10000), $(number throughput-no-standby per_hour) warm without stand-bys" "measured"
  verdict "lease: share at work $(number throughput-warm share_busy) warm" "measured"
}

# Hanging and faulting candidates between good ones.
phase_hostile() {
  local from files="$out/hostile" count=$1 number list=()
  mkdir -p "$files/task"
  cp scripts/sample-saxpy/*.cu "$files/task/"
  sed -e '0,/^name = .*/s//name = "saxpy-hostile"/' -e 's/^launch_ms = .*/launch_ms = 300/' scripts/sample-saxpy/task.toml >"$files/task/task.toml"
  "$muster" task add "$files/task" >>"$out/up.log"
  variants "$files" scripts/sample-saxpy/candidates/same.cu calm 10
  variants "$files" scripts/sample-saxpy/candidates/same.cu good "$count"
  variants "$files" scripts/device-check/hangs.cu hang "$count"
  variants "$files" scripts/device-check/faults.cu fault "$count"
  from=$(leaves)
  submitted hostile-calm 60 saxpy-hostile "$files"/calm-*.cu --on "$one"
  summed hostile-calm "$from"
  for number in $(seq -f '%04g' "$count"); do list+=("$files/hang-$number.cu" "$files/good-$number.cu" "$files/fault-$number.cu"); done
  from=$(leaves)
  submitted hostile 200 saxpy-hostile "${list[@]}" --on "$one"
  summed hostile "$from"
  local longest calm now
  longest=$(tr -d '\n' <"$out/hostile.attempts.json" | grep -oE '"wall_ms": *\{[^}]*\}' | grep -oE '"timeout": *\[[^]]*\]' | grep -oE '[0-9.]+ *\]' | grep -oE '[0-9]+' | head -1 || true)
  calm=$(tr -d '\n' <"$out/hostile-calm.attempts.json" | grep -oE '"million, all": *\{[^}]*\}' | grep -oE '"candidate_ps": *\[[^]]*\]' | grep -oE '[0-9]+' | sed -n 2p || true)
  now=$(tr -d '\n' <"$out/hostile.attempts.json" | grep -oE '"million, all": *\{[^}]*\}' | grep -oE '"candidate_ps": *\[[^]]*\]' | grep -oE '[0-9]+' | sed -n 2p || true)
  verdict "hostile: of $count each, $(ended hostile ok) good ok, $(ended hostile timeout) hanging timeout, $(ended hostile runtime_error) faulting runtime_error" \
    "$([ "$(ended hostile ok)" = "$count" ] && [ "$(ended hostile timeout)" = "$count" ] && [ "$(ended hostile runtime_error)" = "$count" ] && echo holds || echo FAILS)"
  verdict "hostile: a hanging attempt took at most ${longest:-?} ms in all, its launch limit is 300 ms, 2000 ms more are allowed" \
    "$([ "${longest:-999999}" -le 2800 ] && echo holds || echo FAILS)"
  verdict "hostile: the good one's median is ${now:-?} ps, before it was ${calm:-?} ps (limit: 1 % apart)" \
    "$(awk -v a="${now:-0}" -v b="${calm:-1}" 'BEGIN { d = a > b ? a - b : b - a; print (a > 0 && d <= b / 100) ? "holds" : "FAILS" }')"
}

# Both GPUs at work at once, and how much more they do than one.
phase_two() {
  local from files="$out/two" others
  others=$("$muster" node list --json | grep -oE '"id": *"GPU-[^"]*"' | sort -u | wc -l)
  if [ "$others" -lt 2 ]; then verdict "two GPUs: this node offers $others" "skipped"; return; fi
  variants "$files" scripts/sample/candidates/tiled.cu pair "$1"
  from=$(leaves)
  submitted one-gpu 90 matmul-f32 "$files"/*.cu --on "$one"
  from=$(leaves)
  submitted one-gpu-warm 90 matmul-f32 "$files"/*.cu --on "$one" --fresh
  summed one-gpu-warm "$from"
  from=$(leaves)
  submitted two-gpus 90 matmul-f32 "$files"/*.cu --on "$class" --fresh
  summed two-gpus "$from"
  verdict "two GPUs: $(number two-gpus per_hour) an hour against $(number one-gpu-warm per_hour) on one, both at work $(number two-gpus share_parallel) of the time, $(number two-gpus wrong_device) records with another device than the worker's" \
    "$([ "$(number two-gpus wrong_device)" = 0 ] && awk -v share="$(number two-gpus share_parallel)" 'BEGIN { exit !(share > 0.5) }' && echo holds || echo FAILS)"
}

# All summaries as one JSON object.
phases_json() {
  local first=yes label
  printf '{'
  for label in "${phases[@]}"; do
    [ "$first" = yes ] || printf ','
    first=no
    printf '"%s": ' "$label"
    cat "$out/$label.attempts.json"
  done
  printf '}'
}
