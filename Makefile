# The front door. Meson does the work; this file only knows the way there.
#   make            builds build/shoal and what it opens at run time
#   make run        trains LeNet on MNIST: one parameter server, two workers, as local processes
#   make test       everything that guards a commit
#   make docs       the reference of the C interface, from include/shoal, in build/docs/html
PREFIX ?=
MESON_FLAGS ?=
FUZZ_SECONDS ?= 60
FUZZ_SEED ?= 0
FAULTS ?= 1000
RUN_FLAGS ?= --workers 2 --ps 1 --epochs 2
BENCH_FLAGS ?=
IDS ?=
C_FILES = $(shell git ls-files '*.c' '*.h' | grep -v '^tests/fuzz/seeds/')

.PHONY: all everything run test bench install sanitize sanitize-build race race-build fuzz fuzz-build campaign faults keras clean setup \
  reproduce docs dist deb deb-check deb-ci reproducible arm64 clang abi abi-update tidy format check-format

all: build/build.ninja
	@ninja -C build command

everything: build/build.ninja
	@ninja -C build

setup:
	@tools/setup.sh

build/build.ninja: | setup
	@meson setup build $(if $(PREFIX),--prefix $(PREFIX)) $(MESON_FLAGS)

run: all
	build/shoal train lenet $(RUN_FLAGS)

test: everything
	@meson test -C build --no-rebuild --print-errorlogs

bench: everything
	@bench/compare.py build $(BENCH_FLAGS)
	@echo
	@bench/compare_models.py build
	@echo
	@bench/compare_ps.py build
	@echo
	@bench/compare_replicas.py build
	@echo
	@bench/compare_data.py build
	@echo
	@bench/compare_sparse.py build
	@echo
	@bench/compare_graph.py build
	@echo
	@bench/compare_python.py build

install: build/build.ninja
	@$(if $(PREFIX),meson configure build --prefix $(PREFIX))
	@ninja -C build installed
	@meson install -C build --no-rebuild $(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))
	@$(if $(DESTDIR),:,PATH=$$PATH:/sbin ldconfig 2>/dev/null || true) # so that the library is found

build-asan/build.ninja: | setup
	@meson setup build-asan -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 -Dfaults=true $(MESON_FLAGS)

# The tests under ASan and UBSan, which stop at the first error; without those that would only take longer.
sanitize: sanitize-build
	@UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 ASAN_OPTIONS=detect_leaks=1 \
	  meson test -C build-asan --no-rebuild --no-suite once --print-errorlogs --timeout-multiplier 4

sanitize-build: build-asan/build.ninja
	@ninja -C build-asan

build-tsan/build.ninja: | setup
	@meson setup build-tsan -Db_sanitize=thread -Db_lundef=false -Doptimization=1 $(MESON_FLAGS) -Dwerror=false

# All modes of parameter servers under ThreadSanitizer, which does not like every layout of addresses, and makes gcc see
# what is not initialised where all is.
race: race-build
	@TSAN_OPTIONS=halt_on_error=1 setarch -R build-tsan/tests/test_ps_matrix

race-build: build-tsan/build.ninja
	@ninja -C build-tsan tests/test_ps_matrix

fuzz: fuzz-build
	@FUZZ_SEED=$(FUZZ_SEED) tools/fuzz.sh build-fuzz $(FUZZ_SECONDS)

fuzz-build:
	@tools/setup.sh clang
	@tools/fuzz.sh build-fuzz

# Models of the real Keras, predicted and trained by both; onnxruntime. Installs them outside of the checkout, or says that it cannot.
keras:
	@tests/keras/run.sh build/shoal

# Random faults in small jobs: docs/reliability.md. CAMPAIGN_FLAGS="--replay SEED" for one trial.
campaign: everything
	@tests/campaign/campaign.py --faults $(FAULTS) --jobs $$(( $$(nproc) + 1 )) $(CAMPAIGN_FLAGS)

# Each call of the system fails in turn: docs/reliability.md. About half an hour; FAULTS_FLAGS="--every 50" for a part of it.
faults: sanitize-build
	@SHOAL_BIN=$(CURDIR)/build-asan/shoal tests/faults.py $(FAULTS_FLAGS)

# The experiments that were reported elsewhere, at full size, into docs/results.md: hours. IDS="A1 D2" for some.
reproduce: all
	@tools/results.py build/shoal $(IDS)

docs:
	@tools/setup.sh docs
	@mkdir -p build/docs
	@doxygen docs/Doxyfile

# Whether programs linked against the recorded library would still run: docs/abi.md.
abi abi-update: build/build.ninja
	@tools/setup.sh abi
	@meson setup --reconfigure build -Dtypes=true >/dev/null
	@ninja -C build installed
	@tools/abi.sh $(if $(filter abi,$@),check,update) build

# Faults that clang finds by looking; generated kernels and tests aside.
tidy: build/build.ninja
	@tools/setup.sh lint
	@mkdir -p build/tidy && sed 's/-fvect-cost-model=dynamic//g' build/compile_commands.json >build/tidy/compile_commands.json # gcc's own
	@git ls-files 'src/*.c' | grep -v 'src/kernel/lanes_' | xargs -P $$(nproc) -n 8 clang-tidy -p build/tidy --quiet \
	  --extra-arg=-Wno-error --extra-arg=-Wno-unknown-pragmas # a build for CI has -Werror, and gcc's pragmas

format:
	@tools/setup.sh lint
	@clang-format -i $(C_FILES)

check-format:
	@tools/setup.sh lint
	@clang-format --dry-run --Werror $(C_FILES)

# The release: a tarball of what is committed, and its checksum. The same commit gives the same bits.
VERSION = $(shell sed -n "/^project/s/.*version: '\([0-9.]*\)', license.*/\1/p" meson.build)
dist:
	@mkdir -p build/dist
	@git archive --format=tar --prefix=shoal-$(VERSION)/ HEAD | gzip -9n >build/dist/shoal-$(VERSION).tar.gz
	@cd build/dist && sha256sum shoal-$(VERSION).tar.gz | tee shoal-$(VERSION).tar.gz.sha256

# debhelper builds with a home of its own, where ccache would find nothing.
CCACHE_HERE = $(if $(shell command -v ccache),CCACHE_DIR=$(shell ccache -k cache_dir))

# Debian's packages of what is committed, into build/dist, and what lintian has to say of them.
deb: dist
	@tools/setup.sh deb
	@rm -rf build/dist/shoal-$(VERSION) && tar -C build/dist -xf build/dist/shoal-$(VERSION).tar.gz
	@cd build/dist/shoal-$(VERSION) && $(CCACHE_HERE) dpkg-buildpackage -us -uc
	@cd build/dist && lintian --fail-on error,warning shoal_$(VERSION)_*.changes

# The packages in a small Debian of their own: docs/packages.md.
deb-check: deb
	@tools/deb_check.sh build/dist

# What CI has of both: compiled quickly, and in a chroot where one can be had.
deb-ci:
	@tools/deb_ci.sh

# Two builds in two folders, the same bits.
reproducible:
	@tools/reproducible.sh

# For 64-bit Arm, with tests of the kernels under qemu: docs/packages.md.
arm64: setup
	@tools/arm64.sh

# The whole tree by the other compiler, warnings as errors.
clang:
	@tools/setup.sh clang
	@[ -e build-clang/build.ninja ] || CC=clang meson setup build-clang -Dwerror=true
	@ninja -C build-clang

clean:
	rm -rf build build-asan build-tsan build-fuzz build-clang build-arm64
