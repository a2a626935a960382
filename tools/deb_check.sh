#!/bin/sh
# Installs Debian's packages of build/dist into a small Debian made by debootstrap, where the command trains and a program is
# built against the library. Also what is left to test of deploy/Containerfile where no engine for containers runs: the same
# packages in the same base.
#   tools/deb_check.sh [--base] [FOLDER]      of the packages; default: build/dist; --base: only makes the base
# The base is kept in $SHOAL_CHROOT (default: build/chroot.tar), since making it takes a minute of the network.
set -eu
cd "$(dirname "$0")/.."
base=""
[ "${1:-}" != --base ] || { base=1; shift; }
packages=$(realpath "${1:-build/dist}")
kept=${SHOAL_CHROOT:-$PWD/build/chroot.tar}
[ "$(id -u)" = 0 ] || { echo "deb-check: debootstrap and chroot need root" >&2; exit 1; }
tools/setup.sh chroot
root=$(mktemp -d /var/tmp/shoal-chroot.XXXXXX)
clear_root() {
  for mounted in proc sys dev/pts dev; do umount "$root/$mounted" 2>/dev/null || true; done
  rm -rf --one-file-system "$root"
}
trap clear_root EXIT
trap 'exit 1' HUP INT TERM

# All but those of debug symbols, which hold on to the others.
take_packages() {
  mkdir "$root/packages"
  find "$packages" -maxdepth 1 -name '*.deb' ! -name '*-dbgsym_*' -exec cp {} "$root/packages" \;
}

if [ ! -e "$kept" ]; then
  mkdir -p "$(dirname "$kept")"
  debootstrap --variant=minbase --include=gcc,libc6-dev,pkg-config bookworm "$root"
  # What the packages ask for, so that only they are new in the end.
  take_packages
  chroot "$root" sh -c 'apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
    --no-install-recommends /packages/*.deb && dpkg -r shoal shoal-data shoal-doc libshoal-dev libshoal0'
  rm -rf "$root/packages"
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/locale "$root"/usr/share/doc
  tar -C "$root" --one-file-system -cf "$kept.$$" . && mv "$kept.$$" "$kept"
  clear_root
  mkdir "$root"
fi
[ -z "$base" ] || exit 0
tar -C "$root" -xf "$kept"
take_packages
mount -t proc proc "$root/proc" 2>/dev/null || true # for samples of the machine; the command goes without
chroot "$root" sh -c 'dpkg -i /packages/*.deb' >/dev/null

echo "== the command"
chroot "$root" shoal version
chroot "$root" sh -c 'cd /tmp && shoal train softmax --epochs 1 --run-dir run && shoal eval run --json >/dev/null'
chroot "$root" sh -c 'cd /tmp && shoal train softmax --workers 2 --ps 1 --epochs 1 --quiet --run-dir cluster'
chroot "$root" sh -c 'ls /usr/share/man/man1/shoal.1.gz /usr/share/man/man1/shoal-train.1.gz' >/dev/null

echo "== a program"
cp examples/csv_regression.c examples/network.h "$root/tmp"
chroot "$root" sh -c 'cd /tmp && cc -Wall -Werror csv_regression.c -o program $(pkg-config --cflags --libs shoal) && ldd program |
  grep libshoal'
chroot "$root" sh -c 'dpkg -r shoal shoal-data shoal-doc libshoal-dev libshoal0' >/dev/null
if chroot "$root" sh -c 'ls -d /usr/share/shoal /usr/include/shoal /usr/lib/*/shoal 2>/dev/null'; then
  echo "deb-check: files are left after the packages went" >&2
  exit 1
fi
echo "deb-check: good"
