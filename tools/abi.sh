#!/bin/sh
# The binary interface of libshoal, compared with the one on record (docs/abi.md).
#   tools/abi.sh check BUILD    fails when programs linked against the recorded library would break
#   tools/abi.sh update BUILD   records what BUILD has
# The record is text without addresses or paths in an order of its own, so a change of the interface can be read in its diff.
set -eu
cd "$(dirname "$0")/.."
recorded=tools/abi/libshoal.abi
what=$1
library=$2/libshoal.so

describe() { # FILE
  abidw --headers-dir include/shoal --drop-private-types --exported-interfaces-only --type-id-style hash \
    --no-comp-dir-path --no-show-locs --no-corpus-path --no-elf-needed --no-write-default-sizes --out-file "$1" "$library"
  tools/abi_order.py "$1"
}

case $what in
update) describe "$recorded" && echo "wrote $recorded" ;;
check)
  now=$(mktemp)
  trap 'rm -f "$now"' EXIT
  describe "$now"
  # abidiff's exit status is bits: 1 and 2 it failed itself, 4 a change, 8 a change that breaks programs.
  status=0
  abidiff --no-show-locs "$recorded" "$now" || status=$?
  [ $((status & 3)) = 0 ] || exit "$status"
  if [ $((status & 8)) != 0 ]; then
    echo "This breaks programs that were linked before. If it is meant: 'make abi-update', and a line in CHANGELOG.md." >&2
    exit 1
  fi
  [ "$status" = 0 ] && echo "The interface is the one on record." || echo "Changed, as listed above; nothing was taken away."
  ;;
*) echo "usage: tools/abi.sh check|update BUILD" >&2; exit 2 ;;
esac
