# shellcheck shell=bash
# What scripts with a fleet of their own share. Sourced in the root of the checkout by scripts that define `die`, which
# says why and ends.

# Names the binaries: $muster and $node in $MUSTER_BIN, which is exported. Where it is not set, builds them first.
find_binaries() {
  [ "$(uname -s)" = Linux ] || die "this needs Linux"
  if [ -z "${MUSTER_BIN:-}" ]; then
    command -v cargo >/dev/null || die "Rust is missing: see https://rustup.rs, or set MUSTER_BIN to a folder with the three binaries"
    # One package at a time: features unify in a workspace build, and nodes are built without the index.
    cargo build --quiet --locked --release -p coordinator >&2
    cargo build --quiet --locked --release -p agent-node >&2
    MUSTER_BIN=${CARGO_TARGET_DIR:-$PWD/target}/release
  fi
  export MUSTER_BIN
  # shellcheck disable=SC2034 # for those who source this
  muster=$MUSTER_BIN/muster node=$MUSTER_BIN/muster-node
  local binary
  for binary in muster muster-coordinator muster-node; do
    [ -x "$MUSTER_BIN/$binary" ] || die "$MUSTER_BIN/$binary is missing; put all three binaries there, or unset MUSTER_BIN to build them"
  done
}

# Ends the node that was started and the coordinator.
end_fleet() {
  if [ -n "${node_pid:-}" ] && kill "$node_pid" 2>/dev/null; then wait "$node_pid" || true; fi
  "$muster" down >/dev/null 2>&1 || true
}

# start_devices FLAG…: a coordinator on the fresh folder $state, and one node with the devices of $class, which is set to
# this machine's best CPU level where it is empty.
start_devices() {
  case "$class" in
    '' | cpu:*)
      [ -n "$class" ] || class=$("$node" devices --json | grep -o '"architecture": *"cpu:[^"]*"' | head -1 | grep -o 'cpu:[^"]*') ||
        die "this machine has no CPU device; \`muster doctor\` says what is missing"
      "$muster" up --level "$class" "$@" >&2
      ;;
    *)
      # The GPUs of this machine alone: nothing runs beside another device here.
      "$muster" up --no-node >&2
      # shellcheck disable=SC2154 # set by those who source this
      mkdir -p "$state/nodes" && printf '[devices]\ncpu = false\n' >"$state/node.toml"
      "$muster" node invite >"$state/invite"
      "$node" run --state "$state/nodes/gpu" --name gpu --config "$state/node.toml" --invite-file "$state/invite" \
        "$@" >"$state/node.log" 2>&1 &
      node_pid=$!
      local ready=no
      for _ in $(seq 300); do
        if "$muster" node list --json | grep -q '"architecture": *"nvidia:'; then ready=yes; break; fi
        kill -0 "$node_pid" 2>/dev/null || { tail -n 20 "$state/node.log" >&2; die "the node ended before it joined"; }
        sleep 0.2
      done
      [ "$ready" = yes ] || { tail -n 20 "$state/node.log" >&2; die "the node offers no GPU within a minute"; }
      ;;
  esac
}
