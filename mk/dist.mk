# The files of a release, in build/dist: tar.gz, .deb, bill of materials, checksums.
.PHONY: dist
dist: tool man
	@scripts/make-dist $(VERSION)
	@cat $(BUILD)/dist/SHA256SUMS
