package discover

import (
	"fmt"
	"path"
	"strings"
)

// ROCmVersion returns ROCm's version by the path of its runtime library. The file names of
// AMD's builds (libhsa-runtime64.so.1.15.60403) or their folders have the version of ROCm;
// other paths have only the runtime's version.
func ROCmVersion(file string) string {
	var major, minor, patch, one, api int
	_, suffix, _ := strings.Cut(path.Base(file), ".so.")
	if n, _ := fmt.Sscanf(suffix, "%d.%d.%1d%2d%2d", &one, &api, &major, &minor, &patch); n == 5 {
		return fmt.Sprintf("%d.%d.%d", major, minor, patch)
	}
	for dir := range strings.SplitSeq(file, "/") {
		if n, _ := fmt.Sscanf(dir, "rocm-%d.%d.%d", &major, &minor, &patch); n == 3 {
			return fmt.Sprintf("%d.%d.%d", major, minor, patch)
		}
	}
	if suffix != "" && len(suffix) < 32 {
		return "runtime " + suffix
	}
	return "version unknown"
}

// ROCmVersions returns "ROCm" and the version for each file; the path itself if it has no
// version.
func ROCmVersions(files []string) []string {
	var versions []string
	for _, file := range files {
		version := "ROCm " + ROCmVersion(file)
		if strings.HasSuffix(version, "unknown") {
			version += " (" + file + ")"
		}
		versions = append(versions, version)
	}
	return versions
}
