// Package function is a stand-in for the table of API functions until branch calls-functions is merged.
package function

import (
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/ring"
)

// Parameter is a parameter of a function.
type Parameter struct {
	Name  string
	Type  Type
	Place Place
}

// Type is a type.
type Type struct {
	Class Class
	Size  int
	Tag   string
	Text  string
}

// Class says how a value is to be read.
type Class byte

// The classes.
const (
	Void        Class = 'v'
	Pointer     Class = 'p'
	Signed      Class = 'i'
	Unsigned    Class = 'u'
	Enumeration Class = 'e'
)

// Place is where an argument is.
type Place struct {
	In           Area
	First, Words int
}

// Area is a sequence of places.
type Area byte

// The areas.
const (
	Registers Area = 'r'
	Stack     Area = 's'
)

// Argument is an argument of a call, as text.
type Argument struct{ Name, Value string }

// Function is a function of an API.
type Function struct {
	Kind       ring.Kind
	Name       string
	Result     Type
	Parameters []Parameter
	Out        int
}

var (
	hipError  = Type{Enumeration, 4, "hipError_t", "hipError_t"}
	hsaStatus = Type{Enumeration, 4, "hsa_status_t", "hsa_status_t"}
	pointer   = Type{Pointer, 8, "", "void *"}
)

func register(n int) Place { return Place{Registers, n, 1} }

var table = []Function{
	{ring.KindHIPRuntimeAPI, "hipMalloc", hipError, []Parameter{{"ptr", pointer, register(0)}, {"size", Type{Unsigned, 8, "", "size_t"}, register(1)}}, 0},
	{ring.KindHIPRuntimeAPI, "hipStreamSynchronize", hipError, []Parameter{{"stream", pointer, register(0)}}, -1},
	{ring.KindHIPRuntimeAPI, "hipLaunchKernel", hipError, []Parameter{{"function_address", pointer, register(0)}, {"stream", pointer, Place{Stack, 0, 1}}}, -1},
	{ring.KindHIPRuntimeAPI, "hipGetErrorName", pointer, []Parameter{{"hip_error", hipError, register(0)}}, -1},
	{ring.KindHIPCompilerAPI, "__hipPushCallConfiguration", hipError, nil, -1},
	{ring.KindHSACoreAPI, "hsa_system_get_info", hsaStatus, []Parameter{{"attribute", hipError, register(0)}, {"value", pointer, register(1)}}, -1},
	{ring.KindHSACoreAPI, "hsa_signal_wait_scacquire", Type{Signed, 8, "", "hsa_signal_value_t"}, nil, -1},
	{ring.KindHSACoreAPI, "hsa_signal_store_relaxed", Type{Void, 0, "", "void"}, nil, -1},
	{ring.KindHSAAMDExtAPI, "hsa_amd_agents_allow_access", hsaStatus, nil, -1},
}

// Table returns the functions, by their numbers in records.
func Table() []Function { return table }

// Named returns the index of a function.
func Named(name string) (row int, known bool) {
	for i := range table {
		if table[i].Name == name {
			return i, true
		}
	}
	return 0, false
}

// Arguments returns the arguments of a call as text.
func (f *Function) Arguments(registers [6]uint64, stack []uint64, _ bool) (all []Argument) {
	for _, p := range f.Parameters {
		if p.Place.In == Registers {
			all = append(all, Argument{p.Name, fmt.Sprintf("%#x", registers[p.Place.First])})
		} else if p.Place.First < len(stack) {
			all = append(all, Argument{p.Name, fmt.Sprintf("%#x", stack[p.Place.First])})
		}
	}
	return all
}

// ResultText returns a result as text.
func (f *Function) ResultText(result uint64) string {
	if f.Result == hipError && result == 1 {
		return "hipErrorInvalidValue"
	}
	return fmt.Sprintf("%#x", result)
}
