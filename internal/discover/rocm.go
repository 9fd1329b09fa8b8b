package discover

import (
	"fmt"
	"path"
	"strings"
)

// ROCmVersion reads ROCm's version off the path of its runtime library. AMD's builds
// have ROCm's own in it (libhsa-runtime64.so.1.15.60403), or are in a folder
// that has it; others say only which runtime it is.
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

// ROCmVersions returns "ROCm" and the version for each file, with the file where its path
// does not tell.
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
