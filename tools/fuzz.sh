#!/bin/sh
# Feeds each target in tests/fuzz to clang's fuzzer, starting from its committed seeds.
# usage: tools/fuzz.sh BUILD_DIR SECONDS_A_TARGET
set -eu
build=$1
seconds=$2
[ -e "$build/build.ninja" ] || CC=clang meson setup "$build" -Dfuzz=true -Db_sanitize=address,undefined \
  -Db_lundef=false -Doptimization=1 >/dev/null
for source in tests/fuzz/fuzz_*.c; do
  target=$(basename "$source" .c)
  name=${target#fuzz_}
  ninja -C "$build" "tests/fuzz/$target" >/dev/null
  mkdir -p "$build/corpus/$name"
  echo "fuzz: $name for $seconds s"
  log="$build/$target.log"
  if ! "$build/tests/fuzz/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
    -artifact_prefix="$build/$target-" -print_final_stats=1 "$build/corpus/$name" "tests/fuzz/seeds/$name" \
    >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "fuzz: $name failed; the input is in $build/$target-*, and belongs into tests/fuzz/seeds/$name once fixed"
    exit 1
  fi
  sed -n 's/^stat::number_of_executed_units: */fuzz: inputs tried: /p' "$log"
done
