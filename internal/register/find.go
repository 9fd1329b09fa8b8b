package register

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

const (
	registerLibrary = "librocprofiler-register.so"
	attachLibrary   = "librocprofiler-sdk-attach.so"
	sdkLibrary      = "librocprofiler-sdk.so"
	toolLibrary     = "rocprofiler-sdk/librocprofiler-sdk-tool.so" // in the folder of rocprofiler-sdk

	attachFunction = "rocprofiler_register_attach"
	detachFunction = "rocprofiler_register_detach"
)

// functions are what rocprofiler-register exports for an attach.
type functions struct{ attach, detach target.Addr }

// libraries are the mapped files that take part in an attach.
type libraries struct {
	register, attach, sdk []target.Map // the first mapping of each file
}

func find(maps []target.Map) libraries {
	return libraries{mapped(maps, registerLibrary), mapped(maps, attachLibrary), mapped(maps, sdkLibrary)}
}

// mapped returns the first mapping of each file with this name, or with a version behind it.
func mapped(maps []target.Map, name string) (found []target.Map) {
	for _, m := range maps {
		rest, ok := strings.CutPrefix(path.Base(m.Path), name)
		if ok && m.Offset == 0 && strings.Trim(rest, ".0123456789") == "" &&
			!slices.ContainsFunc(found, func(f target.Map) bool { return f.Path == m.Path }) {
			found = append(found, m)
		}
	}
	return found
}

// folders returns where rocprofiler-sdk belongs, the most likely folder first.
func (l libraries) folders() (dirs []string) {
	for _, m := range slices.Concat(l.attach, l.sdk, l.register) {
		if dir := path.Dir(m.Path); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// functionsOf finds rocprofiler-register's functions. Of several copies it takes the one beside the
// library with which a process is prepared.
func (l libraries) functionsOf(t *target.Target) (f functions, err error) {
	copies := slices.Clone(l.register)
	slices.SortStableFunc(copies, func(a, b target.Map) int { return l.distance(a) - l.distance(b) })
	err = ErrNoLibrary
	for _, m := range copies {
		if f, err = exported(t, m.Start); err == nil || !errors.Is(err, ErrNoFunction) {
			break
		}
	}
	return f, err
}

func (l libraries) distance(m target.Map) int {
	if slices.ContainsFunc(l.attach, func(a target.Map) bool { return path.Dir(a.Path) == path.Dir(m.Path) }) {
		return 0
	}
	return 1
}

func exported(t *target.Target, base target.Addr) (f functions, err error) {
	image, err := target.OpenImage(t, base)
	if err != nil {
		return f, err
	}
	for _, one := range []struct {
		name string
		to   *target.Addr
	}{{attachFunction, &f.attach}, {detachFunction, &f.detach}} {
		at, found, err := image.Symbol(one.name)
		if err == nil && !found {
			err = ErrNoFunction
		}
		if err != nil {
			return f, fmt.Errorf("%s: %w", one.name, err)
		}
		*one.to = at
	}
	return f, nil
}

// checkSDK refuses a process that rocprofiler-register would abort, because it cannot load rocprofiler-sdk.
func (l libraries) checkSDK(t *target.Target) error {
	if len(l.sdk) > 0 {
		return nil
	}
	for _, dir := range append(l.folders(), "/usr/lib/x86_64-linux-gnu", "/opt/rocm/lib") {
		if isFile(t, path.Join(dir, sdkLibrary)) {
			return nil
		}
	}
	return ErrNoSDK
}

// toolFor returns the tool libraries to attach, with colons between them: the requested ones, once
// they are checked, or rocprofiler-sdk's own tool.
func (l libraries) toolFor(t *target.Target, requested string) (string, error) {
	if requested == "" {
		return l.defaultTool(t)
	}
	if len(requested) > toolMax {
		return "", &ToolError{requested[:64] + "…", fmt.Sprintf("the list has more than %d bytes", toolMax)}
	}
	for one := range strings.SplitSeq(requested, ":") {
		switch {
		case !path.IsAbs(one):
			return "", &ToolError{one, "an absolute path is needed: rocprofiler-register may abort a process that does not find it"}
		case !isFile(t, one):
			return "", &ToolError{one, "the process sees no such file"}
		}
	}
	return requested, nil
}

// toolMax is the longest list of tool libraries, in bytes.
const toolMax = 1023

// defaultTool finds rocprofiler-sdk's tool in the installation that the process runs.
func (l libraries) defaultTool(t *target.Target) (string, error) {
	for _, dir := range l.folders() {
		candidates := []string{path.Join(dir, toolLibrary)}
		for _, m := range slices.Concat(l.attach, l.sdk) {
			if _, version, ok := strings.Cut(path.Base(m.Path), ".so."); ok {
				major, _, _ := strings.Cut(version, ".")
				candidates = append(candidates, path.Join(dir, toolLibrary)+"."+major, path.Join(dir, toolLibrary)+"."+version)
			}
		}
		for _, c := range candidates {
			if len(c) <= toolMax && isFile(t, c) {
				return c, nil
			}
		}
	}
	return "", &ToolError{toolLibrary, "not found beside the process's rocprofiler-sdk"}
}

// isFile reports whether the target sees a regular file at path. It does not open the file.
func isFile(t *target.Target, path string) bool {
	p, err := t.OpenInRoot(path)
	if err != nil {
		return false
	}
	defer p.Close()
	var st unix.Statx_t
	const how = unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC
	return unix.Statx(p.FD, "", how, unix.STATX_TYPE, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}
