#!/usr/bin/env bash
# Which glibc a binary needs: prints, for each one, the newest GLIBC_x that its symbols are bound to, and which symbols
# ask for more than the limit (2.28: the oldest that clusters still run). Exit code 1: one asks for more.
set -euo pipefail
limit=2.28
while [ $# -gt 0 ]; do
  case $1 in
    --limit) limit=${2:?--limit needs a version}; shift 2 ;;
    --limit=*) limit=${1#*=}; shift ;;
    -*) echo "usage: scripts/glibc-check.sh [--limit 2.28] BINARY…"; exit 2 ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || { echo "usage: scripts/glibc-check.sh [--limit 2.28] BINARY…"; exit 2; }
command -v objdump >/dev/null || { echo "objdump is absent; install it with: apt-get install binutils"; exit 2; }

newer() { # newer A B: whether version A is above B
  [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | tail -n 1)" = "$1" ]
}

bad=0
for binary in "$@"; do
  # Undefined dynamic symbols with the version that they are bound to: `GLIBC_2.34 name`. A weak one (w in the flags)
  # may be absent at run time; the loader still refuses the file if it misses the version.
  needs=$(LC_ALL=C objdump -T -- "$binary" | awk '/\*UND\*/ && match($0, /GLIBC_[0-9.]+/) {
    weak = ($2 ~ /w/) ? " (weak)" : ""
    print substr($0, RSTART + 6, RLENGTH - 6), $NF weak }' | sort -u -V)
  [ -n "$needs" ] || { echo "$binary: needs no glibc symbol (static, or no ELF file)"; continue; }
  newest=$(printf '%s\n' "$needs" | cut -d ' ' -f 1 | sort -u -V | tail -n 1)
  if newer "$newest" "$limit"; then
    bad=1
    echo "$binary: needs GLIBC_$newest, above $limit, by:"
    while read -r version symbol; do
      if newer "$version" "$limit"; then echo "  GLIBC_$version $symbol"; fi
    done <<<"$needs"
  else
    echo "$binary: needs GLIBC_$newest, within $limit"
  fi
done
exit "$bad"
