# rtl-attach: `make demo` and `make test` install what they need (Debian 12, as root).
SHELL := /bin/bash
.DELETE_ON_ERROR:

BUILD := $(CURDIR)/build
PACKAGES := gcc g++ make libc6-dev libhsa-runtime-dev libamdhip64-dev libdrm-dev hipcc clang-15 lld-15 sqlite3

.PHONY: all
all: tool payload simulator workloads

# Debian packages, once: the stamp is renewed when the list changes.
DEPS := $(BUILD)/.packages
$(DEPS): Makefile
	@mkdir -p $(BUILD)
	@missing=$$(for p in $(PACKAGES); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	if [ -n "$$missing" ]; then \
		echo "installing:" $$missing; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	fi
	@touch $@
.PHONY: deps
deps: $(DEPS)

.PHONY: payload simulator workloads bootstrap tool
payload: $(DEPS)
	@$(MAKE) --no-print-directory -C payload BUILD=$(BUILD)
bootstrap: $(DEPS)
	@$(MAKE) --no-print-directory -C internal/inject/boot BUILD=$(BUILD)
simulator: $(DEPS)
	@$(MAKE) --no-print-directory -C testdata/softgpu BUILD=$(BUILD)
workloads: $(DEPS)
	@$(MAKE) --no-print-directory -C testdata/workloads BUILD=$(BUILD)
tool: payload bootstrap
	@CGO_ENABLED=1 go build -o $(BUILD)/rtl-attach ./cmd/rtl-attach

.PHONY: clean
clean:
	rm -rf $(BUILD) payload/dist/*.so internal/inject/dist/*.bin
