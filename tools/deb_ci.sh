#!/bin/sh
# What CI checks of Debian's packages: they build, lintian has nothing to say, and they install into a small Debian, train
# there, and have a program built against them. About three minutes of one processor, less than two with ccache. What cannot be
# done here is skipped, and that is said.
# The base of the small Debian is kept in ~/.cache/shoal; without it, making one has SHOAL_CHROOT_SECONDS (300).
set -eu
cd "$(dirname "$0")/.."
for command in dpkg-buildpackage dh lintian doxygen; do
  command -v "$command" >/dev/null || { echo "deb-ci: SKIPPED: no $command here, and it cannot be installed"; exit 0; }
done
# Not for users: without optimization, tests and packages of debug symbols.
DEB_BUILD_OPTIONS="nocheck noopt noautodbgsym" make --no-print-directory deb >build/deb.log 2>&1 || {
  tail -n 30 build/deb.log
  exit 1
}
echo "deb-ci: built, and lintian has nothing to say"
if [ "$(id -u)" != 0 ] || ! PATH=$PATH:/usr/sbin command -v debootstrap >/dev/null; then
  echo "deb-ci: SKIPPED: the chroot, which needs root and debootstrap"
  exit 0
fi
kept=${XDG_CACHE_HOME:-$HOME/.cache}/shoal
mkdir -p "$kept"
# Other dependencies, another base.
SHOAL_CHROOT=$kept/chroot-$(sha256sum debian/control | cut -c 1-12).tar
export SHOAL_CHROOT
if [ ! -e "$SHOAL_CHROOT" ] &&
  ! timeout -k 60 "${SHOAL_CHROOT_SECONDS:-300}" tools/deb_check.sh --base build/dist >build/chroot.log 2>&1; then
  echo "deb-ci: SKIPPED: the chroot, which could not be made: $(tail -n 1 build/chroot.log)"
  exit 0
fi
tools/deb_check.sh build/dist
