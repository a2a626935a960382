#!/bin/sh
# Builds what is committed twice, in folders of different names and at different times, and compares what would be installed bit
# by bit. Ends with 1, and the names, where they differ.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d /var/tmp/shoal-reproducible.XXXXXX)
trap 'rm -rf "$work"' EXIT
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
build() { # FOLDER
  mkdir -p "$work/$1/src"
  git archive HEAD | tar -C "$work/$1/src" -xf -
  (
    cd "$work/$1/src"
    CCACHE_DISABLE=${CCACHE_DISABLE-1} CFLAGS="-ffile-prefix-map=$PWD=." LDFLAGS="-Wl,--build-id=sha1" \
      meson setup build --prefix /usr -Dpage=disabled >/dev/null
    ninja -C build installed >/dev/null
    meson install -C build --no-rebuild --destdir "$work/$1/root" >/dev/null
  )
  (cd "$work/$1/root" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >"$work/$1.sums"
}
build first
sleep 2 # so that a time in a file would show
build second-and-longer
if ! diff "$work/first.sums" "$work/second-and-longer.sums"; then
  echo "reproducible: the files above differ" >&2
  exit 1
fi
if grep -rl "$work" "$work/first/root"; then
  echo "reproducible: the files above know where they were built" >&2
  exit 1
fi
echo "reproducible: $(wc -l <"$work/first.sums") files, the same bits"
