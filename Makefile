# rtl-attach. `make demo` and `make test` install the packages that they need
# (Debian 12, as root); a current Go toolchain, make and git must be there.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

export BUILD := $(CURDIR)/build
export RTL_BUILD := $(BUILD)
export CGO_ENABLED := 1
VERSION := $(shell cat VERSION)
COMMIT := $(if $(wildcard .git),$(shell git describe --always --dirty --exclude '*' 2>/dev/null))
SOURCE_DATE_EPOCH := $(or $(SOURCE_DATE_EPOCH),$(if $(COMMIT),$(shell git log -1 --format=%ct)),$(shell stat -c %Y VERSION))
export SOURCE_DATE_EPOCH
PACKAGES := gcc g++ libc6-dev libhsa-runtime-dev libamdhip64-dev libdrm-dev hipcc clang-15 llvm-15 lld-15 sqlite3 gdb \
	strace musl-tools debootstrap libjemalloc2 libtcmalloc-minimal4 protobuf-compiler groff-base procps pkg-config
MODULE := $(shell go list -m)
GO_PACKAGES := ./attach/... ./cmd/... ./internal/... ./payload/... ./scripts/... ./tracedb/... ./test/...

.PHONY: all
all: tool clib payload simulator workloads

# --- what everything stands on -------------------------------------------

# Debian packages; the stamp is renewed when the list changes.
DEPS := $(BUILD)/.packages
$(DEPS): Makefile scripts/install-packages
	@mkdir -p $(BUILD)
	@scripts/install-packages $(PACKAGES)
	@touch $@

.PHONY: payload bootstrap simulator workloads victims tool fault-tool
payload: $(DEPS)
	@$(MAKE) --no-print-directory -C payload
bootstrap: $(DEPS)
	@$(MAKE) --no-print-directory -C internal/inject/boot
simulator: $(DEPS)
	@$(MAKE) --no-print-directory -C testdata/softgpu
workloads: $(DEPS)
	@$(MAKE) --no-print-directory -C testdata/workloads
victims: $(DEPS)
	@$(MAKE) --no-print-directory -C testdata/victims
# One static binary, which is the same wherever it is built. It looks up nothing by
# glibc's NSS or dlopen, of which a static binary has only half: the linker would warn,
# and a warning is an error.
TOOL_TAGS := netgo,osusergo,sqlite_omit_load_extension
TOOL_FLAGS := -trimpath -buildvcs=false -ldflags "-linkmode external -extldflags '-static -Wl,--fatal-warnings' \
	-X 'main.version=$(VERSION)$(if $(COMMIT), (commit $(COMMIT)))'"
tool: payload bootstrap
	go build $(TOOL_FLAGS) -tags $(TOOL_TAGS) -o $(BUILD)/rtl-attach ./cmd/rtl-attach
# The same, dying or stopping at a point of a test's choice.
fault-tool: payload bootstrap
	@go build $(TOOL_FLAGS) -tags $(TOOL_TAGS),rtlfault -o $(BUILD)/rtl-attach-fault ./cmd/rtl-attach

# AMD's functions for an attach, as a C library that starts the tool.
.PHONY: clib
clib: $(DEPS)
	@$(MAKE) --no-print-directory -C clib

# The manual's pages, from the commands' own help.
.PHONY: man install
man: payload bootstrap
	@rm -rf $(BUILD)/man && mkdir -p $(BUILD)/man
	@RTL_MAN=$(BUILD)/man go run $(TOOL_FLAGS) -tags $(TOOL_TAGS),rtlman ./cmd/rtl-attach
# make install PREFIX=/usr DESTDIR=/of/a/package: the tool, its manual, completion.
PREFIX ?= /usr/local
install: tool man clib install-embed
	@scripts/install "$(DESTDIR)$(PREFIX)"
include mk/dist.mk
include mk/embed.mk

# --- the main job ---------------------------------------------------------

# What they are made of is built silently: what the compilers say is shown only if
# something fails.
DEMO_LOG := $(BUILD)/demo-build.log
define build_quietly
@mkdir -p $(BUILD)
@echo "Building the tool, a simulated GPU and programs that use it (log: $(DEMO_LOG:$(CURDIR)/%=%))"
@$(MAKE) --no-print-directory tool simulator workloads >$(DEMO_LOG) 2>&1 || { cat $(DEMO_LOG) >&2; exit 1; }
endef

.PHONY: demo demo-server
demo:
	$(build_quietly)
	@scripts/demo
# A front end with eight GPU workers; then the same, compared with the truth record for record.
demo-server:
	$(build_quietly)
	@scripts/demo-server
	@echo "The same again, compared with the simulated GPU's own log, record for record"
	@go test -count=1 -run '^TestServer(WorkerDies)?$$' ./test/truth

# --- checks ---------------------------------------------------------------

# With -j the checks run side by side: after the generators, which write source files, and
# before the tests of whole targets.
.PHONY: test checks
test: generated
	@$(MAKE) --no-print-directory checks
	@$(MAKE) --no-print-directory test-live
checks: lint exports test-payload test-units

# go test, with failures and skipped tests listed at the end, and their numbers.
# lint runs go vet.
GOTEST := go tool -modfile=tools/go.mod gotestsum --format pkgname --format-hide-empty-pkg -- -vet=off
# Tests of whole targets mostly wait: three packages run at a time, of all others two; the longest begin first.
LIVE_TESTS := truth faults cli hostile soak release runtimes
empty :=
LIVE_PATTERN := /test/($(subst $(empty) $(empty),|,$(LIVE_TESTS))|kinds/.*)$$
.PHONY: test-units test-live
test-units: tool simulator workloads victims
	$(GOTEST) -race -count=1 -p 2 -timeout 40m $$(go list $(GO_PACKAGES) | grep -vE '$(LIVE_PATTERN)')
test-live: tool clib fault-tool dist musl-root simulator workloads victims roctx examples
	$(GOTEST) -race -count=1 -p 3 -timeout 40m $(LIVE_TESTS:%=./test/%) ./test/kinds/...

# ROCTx's library, of a Debian release that has it. If the mirror has not, the tests that need it are
# left out.
.PHONY: roctx
roctx: $(DEPS)
	@scripts/get-roctx $(BUILD)/roctx || [ $$? = 3 ]

# Root file systems of other Debian releases. A release that the mirror does not
# have leaves out its cases, by name.
ROOTS := $(BUILD)/roots
.PHONY: roots
roots: $(DEPS)
	-@scripts/make-root $(ROOTS)/trixie trixie libhsa-runtime64-1
	-@scripts/make-root $(ROOTS)/sid sid libhsa-runtime64-1
	-@scripts/make-root $(ROOTS)/bullseye bullseye libc6-dev

# The 63 cases in which a target must be unharmed; make test runs their short form,
# test-matrix that alone.
.PHONY: matrix test-matrix
matrix: roots tool fault-tool simulator workloads victims
	RTL_LONG=1 go test -count=1 -timeout 4h -run '^TestMatrix$$' ./test/faults
test-matrix: tool fault-tool simulator workloads victims
	$(GOTEST) -race -count=1 -timeout 30m -run '^TestMatrix$$' ./test/faults

# The ROCm of each Debian release that has one, attached to from outside; what is
# recorded is compared with the truth, each kind of record too. make runtimes RUNTIMES=sid RTL_CYCLES=10
# is a quick form. Then the end-to-end tests that look into the runtime most;
# RTL_RUNTIME=sid go test ./test/truth runs all of them on one; Debian 12 itself is this machine's.
RUNTIMES ?= bookworm trixie sid experimental
RUNTIME_TESTS := Grace|TestShutDown|BuriedHooks|Inventory|Modes|CopiesCutShort|ServerInOtherRoot|Scratch|TestCalls|HIPTable|EmbedKinds|TestMarkers|TestAllocations|TestRCCL|Flows|Streams|Events|Graphs|Operations|TorchLike|Avail|IndexTool|OtherTool|BuriedCalls|SecondRuntime|SecondNamespace|Listener|RuntimeIntercepts|DeviceLocks|TestRun$$|LibraryLoaded
.PHONY: runtimes
runtimes: tool fault-tool simulator workloads victims roctx examples
	@set -e; for suite in $(RUNTIMES); do scripts/make-runtime $$suite; done
	RTL_RUNTIMES="$(RUNTIMES)" go test -count=1 -v -timeout 4h ./test/runtimes
	@set -e; for suite in $(RUNTIMES); do echo "Debian $$suite:"; \
		RTL_RUNTIME=$${suite#bookworm} go test -count=1 -timeout 1h -run '$(RUNTIME_TESTS)' ./test/truth; done

# RCCL itself on simulated GPUs, in the root of a release: 125 MB (trixie) or 370 MB (experimental) to download.
RCCL_RUNTIME ?= trixie
.PHONY: rccl
rccl: tool simulator
	@scripts/make-runtime $(RCCL_RUNTIME) librccl1
	RTL_RUNTIME=$(RCCL_RUNTIME) go test -count=1 -v -run '^TestRCCLReal$$' ./test/truth

# The payload's units under the sanitizers.
.PHONY: test-payload
test-payload: $(DEPS)
	@$(MAKE) --no-print-directory -C payload/test

# What is generated and committed is what the generators make now.
.PHONY: generated
generated: payload bootstrap
	@scripts/check-generated

.PHONY: lint
lint: payload bootstrap
	@scripts/check-format
	@scripts/check-includes payload/src
	go vet $(GO_PACKAGES)
	go tool -modfile=tools/go.mod staticcheck $(GO_PACKAGES)
	go -C tools vet ./...
	go vet -tags rtlfault,rtlman ./cmd/...

# The exports of the payload and of librtl, their needs and their sizes.
.PHONY: exports
exports: payload embed
	@scripts/check-exports payload/dist/librtl-attach.so
	@scripts/check-exports --embed $(EMBED)/librtl.so

# --- measurements and long runs; each prints its figures -------------------

.PHONY: bench bench-short bench-sets
bench: tool simulator workloads
	go run ./scripts/bench
bench-short: tool simulator workloads
	go run ./scripts/bench -short
# The cost of each set of kinds of record; of markers, if the release's mirror has ROCTx.
bench-sets: tool simulator workloads roctx
	go run ./scripts/bench -sets

# The highest rate of dispatches at which no record is lost.
.PHONY: bench-sustained
bench-sustained: tool simulator workloads
	go run ./scripts/bench -sustained

# How fast a trace is written, beside other writers; RTL_BENCH_PEER=/path/librtl.so
# adds rocm-trace-lite's.
.PHONY: writers bench-db bench-db-short
writers: $(DEPS)
	@$(MAKE) --no-print-directory -C scripts/benchdb/writers
bench-db: writers
	go run ./scripts/benchdb -check
bench-db-short: writers
	go run ./scripts/benchdb -short

# What the report and each export of 10 million dispatches take.
.PHONY: bench-read
bench-read: tool
	go run ./scripts/benchread -check

# How long an attach stops threads, by the kernel's scheduling events.
.PHONY: bench-pause
bench-pause: tool simulator workloads
	go run ./scripts/pause -check

# Kills of the tool and reattach cycles by the thousands; make soak RTL_SOAK=200
# for few. make test runs the short form.
.PHONY: soak
soak: RTL_SOAK ?= 1
soak: tool simulator workloads
	RTL_SOAK=$(RTL_SOAK) go test -count=1 -parallel 4 -timeout 0 -v ./test/soak

# Every fuzz target in turn, each for so long; `make test` runs their corpora.
.PHONY: fuzz
FUZZTIME ?= 10m
fuzz: payload bootstrap
	@FUZZTIME=$(FUZZTIME) scripts/fuzz

.PHONY: clean
clean:
	rm -rf --one-file-system $(BUILD) payload/dist/*.so internal/inject/dist/*.bin
