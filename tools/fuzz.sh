#!/bin/sh
# Feeds each target in tests/fuzz to clang's fuzzer, starting from its committed seeds; as many side by side as there are
# processors.
# usage: tools/fuzz.sh BUILD_DIR                       builds them
#        tools/fuzz.sh BUILD_DIR SECONDS_A_TARGET      runs them
#        tools/fuzz.sh BUILD_DIR SECONDS NAME          runs this one
# FUZZ_OPTIMIZATION=0 in the environment: builds in a third of the time, for a short run.
# FUZZ_SEED=N in the environment: the same inputs in the same order each time, from a fresh BUILD_DIR.
set -eu
build=$1
names=$(cd tests/fuzz && ls fuzz_*.c | sed 's/^fuzz_//; s/\.c$//')
if [ $# -eq 1 ]; then
  [ -e "$build/build.ninja" ] || CC=clang meson setup "$build" -Dfuzz=true -Db_sanitize=address,undefined \
    -Db_lundef=false -Doptimization="${FUZZ_OPTIMIZATION:-1}" >/dev/null
  # shellcheck disable=SC2046
  ninja -C "$build" $(printf 'tests/fuzz/fuzz_%s\n' $names)
  exit
fi
seconds=$2
if [ $# -eq 2 ]; then
  printf '%s\n' $names | xargs -P "$(nproc)" -n 1 "$0" "$build" "$seconds"
  exit
fi
name=$3
log="$build/fuzz_$name.log"
mkdir -p "$build/corpus/$name"
if ! "$build/tests/fuzz/fuzz_$name" -seed="${FUZZ_SEED:-0}" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 -max_len=65536 \
  -artifact_prefix="$build/fuzz_$name-" -print_final_stats=1 "$build/corpus/$name" "tests/fuzz/seeds/$name" \
  >"$log" 2>&1; then
  tail -n 40 "$log"
  echo "fuzz: $name failed; the input is in $build/fuzz_$name-*, and belongs into tests/fuzz/seeds/$name once fixed"
  exit 1
fi
tried=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
echo "fuzz: $name for $seconds s, $tried inputs"
