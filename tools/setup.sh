#!/bin/sh
# Installs what Shoal needs and this machine lacks. Looks first, and touches nothing when all is there.
#   tools/setup.sh            what building and testing need
#   tools/setup.sh clang      also what `make fuzz` needs
#   tools/setup.sh lint       also what `make tidy` and `make format` need
#   tools/setup.sh docs       also what `make docs` needs
#   tools/setup.sh abi        also what `make abi` needs
#   tools/setup.sh python     also NumPy, for the tests of the Python package
#   tools/setup.sh deb        also what `make deb` needs
#   tools/setup.sh chroot     also what `make deb-check` needs
#   tools/setup.sh arm64      also what `make arm64` needs
#   tools/setup.sh hosts      also an ssh server and Prometheus' promtool, for the tests of launches and metrics
#   tools/setup.sh cache      also ccache, which builds what was built before from its cache
#   tools/setup.sh model      also spin, for the test of the protocol of replicated servers
#   tools/setup.sh browser    also the page of `shoal report`, and what tests and pictures of it need
# Several words may be given.
set -eu

missing=""
need() { missing="$missing $1"; }
has_command() { command -v "$1" >/dev/null 2>&1; }
has_library() { has_command pkg-config && pkg-config --exists "$1"; }

has_command gcc || need gcc
has_command meson || need meson
has_command ninja || need ninja-build
has_command pkg-config || need pkg-config
has_command python3 || need python3
has_command valgrind || need valgrind
echo '#include <stdlib.h>' | gcc -E - >/dev/null 2>&1 || need libc6-dev
has_library cmocka || need libcmocka-dev
has_library jansson || need libjansson-dev
has_library libjpeg || need libjpeg-dev
has_library libpng || need libpng-dev
has_library libzmq || need libzmq3-dev
has_library openssl || need libssl-dev
has_library mpi || need libopenmpi-dev
has_command mpirun || need openmpi-bin
has_library libmicrohttpd || need libmicrohttpd-dev
has_library libwebp || need libwebp-dev
has_library libzstd || need libzstd-dev
has_library zlib || need zlib1g-dev

asked_for() { case " $words " in *" $1 "*) return 0 ;; esac; return 1; }
words="$*"
if asked_for browser; then
  has_command node || need nodejs
  has_command npm || need npm
  has_command chromium || need chromium
  has_command chromedriver || need chromium-driver
fi
if asked_for python; then
  python3 -c 'import numpy' 2>/dev/null || /usr/bin/python3 -c 'import numpy' 2>/dev/null || need python3-numpy
fi
if asked_for deb; then
  has_command dpkg-buildpackage || need dpkg-dev
  has_command dh || need debhelper
  has_command lintian || need lintian
  has_command doxygen || need doxygen
fi
if asked_for chroot; then
  has_command debootstrap || [ -x /usr/sbin/debootstrap ] || need debootstrap
fi
if asked_for arm64; then
  has_command aarch64-linux-gnu-gcc || need gcc-aarch64-linux-gnu
  has_command qemu-aarch64-static || need qemu-user-static
  has_command ccache || need ccache
fi
if asked_for hosts; then
  has_command ssh || need openssh-client
  has_command sshd || [ -x /usr/sbin/sshd ] || need openssh-server
  has_command promtool || need prometheus
fi
if asked_for cache; then
  has_command ccache || need ccache
fi
if asked_for model; then
  has_command spin || need spin
fi
if asked_for lint; then
  has_command clang-tidy || need clang-tidy
  has_command clang-format || need clang-format
fi
if asked_for docs; then
  has_command doxygen || need doxygen
fi
if asked_for abi; then
  has_command abidw || need abigail-tools
fi

# clang's fuzzing and sanitizer libraries come in a package named after its version.
if asked_for clang; then
  has_command clang || need clang
  if ! ls "$(clang --print-resource-dir 2>/dev/null)"/lib/linux/libclang_rt.fuzzer-*.a >/dev/null 2>&1; then
    version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\).*/\1/p' | head -n 1)
    [ -z "$version" ] || need "libclang-rt-$version-dev"
  fi
fi

[ -n "$missing" ] || exit 0

if ! has_command apt-get; then
  echo "Shoal needs packages that are not here (Debian's names):$missing" >&2
  echo "This machine has no apt-get; install them by its own means and try again." >&2
  exit 1
fi
if [ "$(id -u)" = 0 ]; then
  as_root=""
elif has_command sudo && sudo -n true 2>/dev/null; then
  as_root="sudo"
else
  echo "Shoal needs packages that are not here. Run this once, then try again:" >&2
  echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing" >&2
  exit 1
fi
echo "Installing:$missing"
$as_root apt-get update -q
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
# Without apt's lists the version of clang was not known above; now it is.
if asked_for clang && [ -z "${SHOAL_SETUP_AGAIN:-}" ]; then
  SHOAL_SETUP_AGAIN=1 exec "$0" "$@"
fi
