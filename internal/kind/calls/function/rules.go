package function

import (
	"regexp"
	"slices"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/ring"
)

// When says when calls of a function are recorded.
type When int

// The values of WHEN in functions.def.
const (
	Always    When = iota
	OnRequest      // too frequent for most uses
	Never          // intercepting the function would do harm, or its arguments are not known
)

// String returns the word in functions.def.
func (w When) String() string { return [...]string{"ALWAYS", "ON_REQUEST", "NEVER"}[w] }

var (
	// hsa_init and hsa_shut_down make and free what the hooks stand on. The index functions are the
	// payload's own, with grace. The tables of the extensions lie on the heap and are freed by hsa_shut_down.
	never    = regexp.MustCompile(`^(hsa_init|hsa_shut_down|hsa_queue_(load|store|add|cas)_\w*index\w*|hsa_ext_\w+|hsa_ven_\w+|hsa_amd_image_\w+)$`)
	frequent = regexp.MustCompile(`^hsa_signal_(load|store|silent_store|exchange|cas|add|subtract|and|or|xor)_`)
)

// KindOf returns the kind to which the calls of a function belong.
func KindOf(name string) ring.Kind {
	switch {
	case strings.HasPrefix(name, "__hip"):
		return ring.KindHIPCompilerAPI
	case strings.HasPrefix(name, "hsa_amd_"):
		return ring.KindHSAAMDExtAPI
	case strings.HasPrefix(name, "hsa_"):
		return ring.KindHSACoreAPI
	case strings.HasPrefix(name, "nccl"):
		return ring.KindRCCLAPI
	}
	return ring.KindHIPRuntimeAPI
}

// NewerName returns the name that replaces a deprecated one of HSA. Both share a slot of the runtime's table.
func NewerName(name string) (newer string, deprecated bool) {
	for _, s := range [][2]string{{"_acquire", "_scacquire"}, {"_release", "_screlease"}, {"_acq_rel", "_scacq_screl"}} {
		if stem, found := strings.CutSuffix(name, s[0]); found && strings.HasPrefix(name, "hsa_") {
			return stem + s[1], true
		}
	}
	return "", false
}

func (f *Function) applyRules() {
	f.When = whenOf(f)
	f.Out, f.OutBytes = outOf(f)
	f.Stream = slices.IndexFunc(f.Parameters, func(p Parameter) bool { return p.Type.Text == "hipStream_t" })
	f.Bytes = slices.IndexFunc(f.Parameters, f.isBytes)
}

func whenOf(f *Function) When {
	switch {
	case f.Variadic, never.MatchString(f.Name):
		return Never
	case frequent.MatchString(f.Name):
		return OnRequest
	}
	return Always
}

// bytesNames are the names of parameters that are the number of bytes of a copy, a fill or an allocation.
var bytesNames = []string{"size", "sizeBytes", "sizebytes", "sizeInBytes", "ByteCount", "bytes", "size_bytes"}

// countsItems are the functions whose count is not of bytes.
var countsItems = regexp.MustCompile(`^hipMem(setD16|setD32|PoolSetAccess|cpy\w*Batch)|^hsa_amd_memory_fill$|^nccl`)

func (f *Function) isBytes(p Parameter) bool {
	return p.Type.Text == "size_t" &&
		(slices.Contains(bytesNames, p.Name) || p.Name == "count" && !countsItems.MatchString(f.Name))
}

// outOf returns the out-argument that the payload reads when the call has returned 0.
func outOf(f *Function) (parameter, bytes int) {
	parameter, listed := outs[f.Name]
	if !listed || parameter >= len(f.Parameters) || f.When == Never {
		return -1, 0
	}
	p := f.Parameters[parameter]
	bytes = pointeeBytes(p.Type)
	if bytes == 0 || p.Place.In != Registers {
		return -1, 0
	}
	return parameter, bytes
}

// pointeeBytes returns the size of a handle, pointer or int to which the parameter points; 0: something else.
func pointeeBytes(t Type) int {
	pointee, isPointer := strings.CutSuffix(t.Text, "*")
	pointee = strings.TrimSpace(pointee)
	switch {
	case !isPointer || t.Class != Pointer || strings.HasPrefix(pointee, "const "):
		return 0
	case pointee == "int" || pointee == "hipDevice_t":
		return 4
	case strings.HasSuffix(pointee, "*"), slices.Contains(handles, pointee):
		return 8
	}
	return 0
}
