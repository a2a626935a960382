#!/bin/sh
# Builds Shoal for 64-bit Arm in build-arm64 and runs the tests of its kernels under qemu-user.
#   tools/arm64.sh [TEST...]      default: ops products exec
# Arm's libraries are unpacked into build-arm64/root; nothing of this machine changes but the compiler and qemu, which
# tools/setup.sh installs.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh arm64
build=$PWD/build-arm64
root=$build/root
apt=$build/apt
packages="libc6-dev linux-libc-dev libcmocka-dev libjansson-dev libjpeg-dev libmicrohttpd-dev libpng-dev libssl-dev libwebp-dev
  libzmq3-dev libzstd-dev zlib1g-dev"

# apt with a state of its own, for packages of Arm alone.
arm_apt() {
  sources=/etc/apt/sources.list.d/debian.sources
  [ -e "$sources" ] || sources=/etc/apt/sources.list
  apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root -o Debug::NoLocking=1 \
    -o Dir::State="$apt/state" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" \
    -o Dir::Etc::sourcelist="$sources" -o Dir::Etc::sourceparts=/dev/null "$@"
}

if [ ! -e "$root/complete" ]; then
  mkdir -p "$root" "$apt/state/lists/partial" "$apt/cache/archives/partial"
  : >"$apt/status"
  arm_apt update
  # shellcheck disable=SC2086
  arm_apt install -y --no-install-recommends --download-only $packages
  for package in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
  # Absolute links would leave the folder.
  find "$root" -type l -lname '/*' | while read -r link; do ln -sfn "$root$(readlink "$link")" "$link"; done
  touch "$root/complete"
fi
if [ ! -e "$build/build.ninja" ]; then
  printf "[constants]\nroot = '%s'\n" "$root" >"$build/root.ini"
  meson setup "$build" --cross-file "$build/root.ini" --cross-file tools/arm64.ini -Dmpi=disabled -Dpage=disabled \
    ${MESON_FLAGS:-}
fi
[ $# -gt 0 ] || set -- ops products exec
programs=""
for name; do programs="$programs tests/test_$name"; done
# shellcheck disable=SC2086
ninja -C "$build" $programs
for program in $programs; do
  echo "== $program on $(qemu-aarch64-static --version | head -n 1)"
  qemu-aarch64-static -L "$root" "$build/$program"
done
