# The files of a release, in build/dist: tar.gz, .deb, bill of materials, checksums.
.PHONY: dist
dist: tool man clib
	@scripts/make-dist $(VERSION)

# The release in other root file systems; then built again in another folder.
# `make test` runs what takes seconds of it.
.PHONY: musl-root test-dist
musl-root: $(DEPS)
	-@scripts/make-musl-root $(ROOTS)/musl
test-dist: dist musl-root roots simulator workloads
	RTL_LONG=1 go test -count=1 -v -timeout 1h ./test/release
