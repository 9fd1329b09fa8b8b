# rtl-attach. `make demo` and `make test` install the packages that they need
# (Debian 12, as root); a current Go toolchain, make and git must be there.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

export BUILD := $(CURDIR)/build
export RTL_BUILD := $(BUILD)
export CGO_ENABLED := 1
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
PACKAGES := gcc g++ libc6-dev libhsa-runtime-dev libamdhip64-dev libdrm-dev hipcc clang-15 lld-15 sqlite3 gdb
GO_PACKAGES := ./cmd/... ./internal/... ./payload/... ./scripts/... ./tracedb/... ./test/...

.PHONY: all
all: tool payload simulator workloads

# --- what everything stands on -------------------------------------------

# Debian packages; the stamp is renewed when the list changes.
DEPS := $(BUILD)/.packages
$(DEPS): Makefile scripts/install-packages
	@mkdir -p $(BUILD)
	@scripts/install-packages $(PACKAGES)
	@touch $@

.PHONY: payload bootstrap simulator workloads victims tool
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
tool: payload bootstrap
	go build -ldflags "-X main.version=$(VERSION)" -o $(BUILD)/rtl-attach ./cmd/rtl-attach

# --- the main job ---------------------------------------------------------

.PHONY: demo
demo: tool simulator workloads
	@scripts/demo

# --- checks ---------------------------------------------------------------

.PHONY: test
test: generated lint exports test-payload test-go

.PHONY: test-go
# One package at a time: two cores are few for targets, simulators and tools.
test-go: tool simulator workloads victims
	go test -race -count=1 -p 1 -timeout 20m $(GO_PACKAGES)

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
	go vet $(GO_PACKAGES)
	go tool staticcheck $(GO_PACKAGES)

# The payload's exports, its needs and its size.
.PHONY: exports
exports: payload
	@scripts/check-exports payload/dist/librtl-attach.so

# --- measurements and long runs; each prints its figures -------------------

.PHONY: bench bench-short
bench: tool simulator workloads
	go run ./scripts/bench
bench-short: tool simulator workloads
	go run ./scripts/bench -short

# How long an attach stops threads, by the kernel's scheduling events.
.PHONY: bench-pause
bench-pause: tool simulator workloads
	go run ./scripts/pause

# Every fuzz target in turn, each for so long; `make test` runs their corpora.
.PHONY: fuzz
FUZZTIME ?= 10m
fuzz: payload bootstrap
	@FUZZTIME=$(FUZZTIME) scripts/fuzz

.PHONY: clean
clean:
	rm -rf $(BUILD) payload/dist/*.so internal/inject/dist/*.bin
