package function_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
)

func named(t *testing.T, name string) *function.Function {
	t.Helper()
	row, known := function.Named(name)
	if !known {
		t.Fatalf("%s is not in the table", name)
	}
	return &function.Table()[row]
}

func TestTableIsSortedAndFits(t *testing.T) {
	table := function.Table()
	if len(table) < 700 || len(table) >= 1024 {
		t.Errorf("%d functions", len(table))
	}
	for i := 1; i < len(table); i++ {
		a, b := &table[i-1], &table[i]
		if a.Kind > b.Kind || a.Kind == b.Kind && a.Name >= b.Name {
			t.Errorf("%s (%v) comes before %s (%v)", a.Name, a.Kind, b.Name, b.Kind)
		}
	}
	for i := range table {
		if row, known := function.Named(table[i].Name); !known || row != i {
			t.Errorf("%s: row %d, found as %d", table[i].Name, i, row)
		}
		if table[i].Kind != function.KindOf(table[i].Name) {
			t.Errorf("%s: kind %v", table[i].Name, table[i].Kind)
		}
	}
}

func TestPlaces(t *testing.T) {
	for name, want := range map[string]string{
		"hipModuleLaunchKernel":               "r0 r1 r2 r3 r4 r5 s0 s1 s2 s3 s4",
		"hipLaunchKernel":                     "r0 r1+2 r3+2 r5 s0 s1",
		"hipExtLaunchKernel":                  "r0 r1+2 r3+2 r5 s0 s1 s2 s3 s4",
		"hipMemcpyAsync":                      "r0 r1 r2 r3 r4",
		"hipMalloc3D":                         "r0 s0+3",
		"hipIpcOpenMemHandle":                 "r0 s0+8 r1",
		"hipCreateChannelDesc":                "r1 r2 r3 r4 r5", // r0: where the result goes
		"hipTexRefSetMipmapLevelBias":         "r0 x0",
		"__hipPushCallConfiguration":          "r0+2 r2+2 r4 r5",
		"__hipRegisterFunction":               "r0 r1 r2 r3 r4 r5 s0 s1 s2 s3",
		"hsa_signal_wait_scacquire":           "r0 r1 r2 r3 r4",
		"hsa_queue_create":                    "r0 r1 r2 r3 r4 r5 s0 s1",
		"hsa_amd_memory_async_copy_on_engine": "r0 r1 r2 r3 r4 r5 s0 s1 s2 s3",
		"hsa_signal_group_wait_any_scacquire": "r0 r1 r2 r3 r4 r5",
		"hipGetDevicePropertiesR0600":         "r0 r1",
		"hsa_amd_profiling_async_copy_enable": "r0",
		"hipDeviceGetTexture1DLinearMaxWidth": "r0 r1 r2",
		"ncclAllReduce":                       "r0 r1 r2 r3 r4 r5 s0",
		"ncclCommInitRank":                    "r0 r1 s0+16 r2",
	} {
		var places []string
		for _, p := range named(t, name).Parameters {
			places = append(places, p.Place.String())
		}
		if got := strings.Join(places, " "); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestRules(t *testing.T) {
	for name, want := range map[string]function.When{
		"hipMalloc": function.Always, "hsa_signal_create": function.Always, "hsa_signal_wait_relaxed": function.Always,
		"hsa_signal_load_relaxed": function.OnRequest, "hsa_signal_and_scacq_screl": function.OnRequest,
		"hsa_signal_silent_store_screlease": function.OnRequest,
		"hsa_init":                          function.Never, "hsa_shut_down": function.Never, "hsa_amd_image_create": function.Never,
		"hsa_queue_load_read_index_relaxed": function.Never, "hsa_queue_cas_write_index_scacquire": function.Never,
		"hsa_ext_image_create": function.Never, "hsa_ven_amd_loader_query_host_address": function.Never,
	} {
		if got := named(t, name).When; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for _, name := range []string{"hsa_signal_load_acquire", "hsa_signal_wait_acquire", "hsa_signal_and_acq_rel"} {
		if _, known := function.Named(name); known {
			t.Errorf("%s is in the table beside the name that replaces it", name)
		}
	}
}

func TestOuts(t *testing.T) {
	outs := 0
	for i := range function.Table() {
		f := &function.Table()[i]
		if f.Out < 0 {
			continue
		}
		outs++
		p := f.Parameters[f.Out]
		if p.Place.In != function.Registers || p.Type.Class != function.Pointer || strings.HasPrefix(p.Type.Text, "const") ||
			f.OutBytes != 4 && f.OutBytes != 8 || f.Result.Class != function.Enumeration {
			t.Errorf("%s: out-argument %s %v of %d bytes, result %v", f.Name, p.Name, p.Type, f.OutBytes, f.Result)
		}
	}
	if outs != len(function.Outs) {
		t.Errorf("%d of %d listed out-arguments are in the table", outs, len(function.Outs))
	}
}

func text(f *function.Function, registers [6]uint64, stack []uint64, out bool) string {
	var all []string
	for _, a := range f.Arguments(registers, stack, out) {
		if a.Out {
			a.Name = "*" + a.Name
		}
		all = append(all, a.Name+"="+a.Value)
	}
	return strings.Join(all, ", ")
}

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		name      string
		registers [6]uint64
		stack     []uint64
		out       bool
		want      string
	}{
		{
			"hipMemcpyAsync",
			[6]uint64{0x7f0000001000, 0x55d0, 4096, 0xffffffff_00000001, 0},
			nil, false,
			"dst=0x7f0000001000, src=0x55d0, sizeBytes=4096, kind=hipMemcpyHostToDevice, stream=0x0",
		},
		{"hipMalloc", [6]uint64{0x7f00, 1024}, nil, true, "*ptr=0x7f00, size=1024"},
		{"hipMalloc", [6]uint64{0x7ffd, 1024}, nil, false, "ptr=0x7ffd, size=1024"},
		{"hipGetDevice", [6]uint64{0xdead_00000003}, nil, true, "*deviceId=3"},
		{
			"hipLaunchKernel",
			[6]uint64{0x401000, 2<<32 | 64, 3, 5<<32 | 256, 0xffff_00000001, 0x7ffd},
			[]uint64{128, 0x55aa},
			false,
			"function_address=0x401000, numBlocks={64, 2, 3}, dimBlocks={256, 5, 1}, args=0x7ffd, sharedMemBytes=128, stream=0x55aa",
		},
		{
			"hipModuleLaunchKernel",
			[6]uint64{0x10, 1, 2, 3, 4, 5},
			[]uint64{6, 7, 0x20, 0, 0x30},
			false,
			"f=0x10, gridDimX=1, gridDimY=2, gridDimZ=3, blockDimX=4, blockDimY=5, blockDimZ=6, sharedMemBytes=7, " +
				"stream=0x20, kernelParams=0x0, extra=0x30",
		},
		{
			"hsa_signal_wait_scacquire",
			[6]uint64{0x1000, 2, 1, ^uint64(0), 1},
			nil, false,
			"signal=0x1000, condition=HSA_SIGNAL_CONDITION_LT, compare_value=1, timeout_hint=18446744073709551615, " +
				"wait_state_hint=HSA_WAIT_STATE_ACTIVE",
		},
		{
			"hsa_amd_memory_async_copy_on_engine",
			[6]uint64{1, 2, 3, 4, 5, 6},
			[]uint64{7, 8},
			false,
			"dst=0x1, dst_agent=0x2, src=0x3, src_agent=0x4, size=5, num_dep_signals=6, dep_signals=0x7, " +
				"completion_signal=0x8, engine_id=…, force_copy_on_sdma=…",
		},
		{"hipTexRefSetMipmapLevelBias", [6]uint64{0x10}, nil, false, "texRef=0x10, bias=…"},
		{
			"ncclAllReduce",
			[6]uint64{0x7f00, 0x7f80, 4096, 6, 4, 0x55d0},
			[]uint64{0x66e0},
			false,
			"sendbuff=0x7f00, recvbuff=0x7f80, count=4096, datatype=ncclFloat16, op=ncclAvg, comm=0x55d0, stream=0x66e0",
		},
		{"ncclCommInitRank", [6]uint64{0x55d0, 8, 3}, make([]uint64, 5), true, "*comm=0x55d0, nranks=8, commId=…, rank=3"},
		{"hipDeviceSynchronize", [6]uint64{}, nil, false, ""},
		{"hipStreamCreateWithFlags", [6]uint64{0x10, 17}, nil, false, "stream=0x10, flags=0x11"},
		{
			"hsa_agent_get_info",
			[6]uint64{0x10, 0xa002, 0x20},
			nil, false,
			"agent=0x10, attribute=HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT, value=0x20",
		},
	} {
		if got := text(named(t, c.name), c.registers, c.stack, c.out); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestResults(t *testing.T) {
	for _, c := range []struct {
		name   string
		result uint64
		want   string
	}{
		{"hipMalloc", 0xffffffff_00000000, "hipSuccess"},
		{"hipMalloc", 1, "hipErrorInvalidValue"},
		{"hipMalloc", 4711, "4711"},
		{"hsa_signal_create", 0, "HSA_STATUS_SUCCESS"},
		{"hsa_signal_create", 0x1000, "HSA_STATUS_ERROR"},
		{"hsa_amd_memory_pool_free", 40, "HSA_STATUS_ERROR_INVALID_MEMORY_POOL"},
		{"hsa_signal_load_relaxed", ^uint64(0), "-1"},
		{"ncclBroadcast", 4, "ncclInvalidArgument"},
		{"hipGetErrorString", 0x7f00, "0x7f00"},
		{"hsa_signal_store_relaxed", 5, ""},
		{"hipCreateChannelDesc", 0x7ffd, "0x7ffd"},
	} {
		if got := named(t, c.name).ResultText(c.result); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestRoles(t *testing.T) {
	f := named(t, "hipMemcpyAsync")
	if f.Stream != 4 || f.Bytes != 2 {
		t.Errorf("hipMemcpyAsync: stream %d, bytes %d", f.Stream, f.Bytes)
	}
	if bytes, items := named(t, "hipMemsetD8").Bytes, named(t, "hipMemsetD32").Bytes; bytes != 2 || items != -1 {
		t.Errorf("hipMemsetD8: bytes %d; hipMemsetD32: bytes %d", bytes, items)
	}
	for _, name := range []string{"hipMemPoolSetAccess", "hipMemcpyBatchAsync", "hsa_amd_memory_fill", "ncclBcast"} {
		if got := named(t, name).Bytes; got != -1 {
			t.Errorf("%s: bytes %d", name, got)
		}
	}
	if f := named(t, "hipLaunchKernel"); f.Stream != 5 || f.Bytes != -1 {
		t.Errorf("hipLaunchKernel: stream %d, bytes %d", f.Stream, f.Bytes)
	}
}

// Any registers, and fewer words of the stack than the function has.
func TestNoValuesArePanic(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range function.Table() {
		f := &function.Table()[i]
		for words := range 17 {
			var registers [6]uint64
			stack := make([]uint64, words)
			for _, area := range [][]uint64{registers[:], stack} {
				for j := range area {
					area[j] = random.Uint64() >> random.UintN(64)
				}
			}
			arguments := f.Arguments(registers, stack, words%2 == 0)
			if len(arguments) != len(f.Parameters) {
				t.Fatalf("%s: %d arguments of %d", f.Name, len(arguments), len(f.Parameters))
			}
			if slices.ContainsFunc(arguments, func(a function.Argument) bool { return a.Name == "" || a.Value == "" }) {
				t.Errorf("%s: %v", f.Name, arguments)
			}
			f.ResultText(random.Uint64())
		}
	}
}

func TestFormatIsParsesInverse(t *testing.T) {
	facts, err := function.Parse(function.Text)
	if err != nil {
		t.Fatal(err)
	}
	if string(facts.Format()) != function.Text {
		t.Error("functions.txt is not what Format writes")
	}
}

func TestParseRefuses(t *testing.T) {
	for _, line := range []string{
		"x", "NO_KIND\tf\tv0 void", "HIP_RUNTIME_API\tf\tv void", "HIP_RUNTIME_API\tf\tv0 void\tr0", "HIP_RUNTIME_API\tf\tv0 void\tq0 a i4 int",
		"HIP_RUNTIME_API\tf\tv0 void\tr0+x a i4 int", "enum\te\tx=y", "struct\ts\tx", "struct\ts\t0 x",
	} {
		if _, err := function.Parse(line + "\n"); err == nil {
			t.Errorf("%q is accepted", line)
		}
	}
}
