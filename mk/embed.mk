# librtl, for applications that record themselves (include/rtl/rtl.h), and programs that use it. They are built
# against an installed copy, in build/embed/root.
EMBED := $(BUILD)/embed
.PHONY: embed examples install-embed
embed: $(DEPS)
	@$(MAKE) --no-print-directory -C payload/embed
examples: embed
	@scripts/install-embed $(EMBED)/root
	@PKG_CONFIG_PATH=$(EMBED)/root/lib/pkgconfig $(MAKE) --no-print-directory -C examples/embed OUT=$(EMBED)/examples
	@mkdir -p $(BUILD)/workloads
	@$(MAKE) --no-print-directory -C testdata/workloads $(BUILD)/workloads/embedded $(BUILD)/workloads/recorder.so
install-embed: embed
	@scripts/install-embed "$(DESTDIR)$(PREFIX)" "$(PREFIX)"
