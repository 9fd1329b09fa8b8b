package envbuf

import "github.com/rtl-attach/rtl-attach/internal/ring"

// Kind is how a key's value is written in the buffer.
type Kind int

const (
	Number Kind = iota // decimal digits
	Choice             // one of the key's Choices
	Set                // names of kinds of record (ring.Kind), with commas between them
	Text               // unchanged, at most Max bytes with its NUL
)

// Key is one setting of the payload. payload/src/core/env_keys.h is generated from the table
// Keys.
type Key struct {
	Name       string
	Field      string // of struct rtl_config
	Kind       Kind
	Default    uint64 // of a number; index of a choice; bits that a set always has; a text's default is empty
	Min, Max   uint64
	PowerOfTwo bool
	Choices    []string
	TestOnly   bool
	Doc        string
}

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
	tib = 1 << 40

	minuteMS = 60_000
	hourMS   = 60 * minuteMS
)

// Names of settings.
const (
	BufferSize       = "RTL_BUFFER_SIZE"
	BufferWatermark  = "RTL_BUFFER_WATERMARK"
	BufferPolicy     = "RTL_BUFFER_POLICY"
	BufferLimit      = "RTL_BUFFER_LIMIT"
	RecorderTimeout  = "RTL_RECORDER_TIMEOUT_MS"
	GraceTimeout     = "RTL_GRACE_TIMEOUT_MS"
	DrainTimeout     = "RTL_DRAIN_TIMEOUT_MS"
	SignalPool       = "RTL_SIGNAL_POOL"
	Stamp            = "RTL_STAMP"
	HSALibrary       = "RTL_HSA_LIBRARY"
	ThreadIDOffset   = "RTL_THREAD_ID_OFFSET"
	Trace            = "RTL_TRACE"
	Operations       = "RTL_OPERATIONS"
	Schedule         = "RTL_SCHEDULE"
	GPUs             = "RTL_GPUS"
	TestWedgeControl = "RTL_TEST_WEDGE_CONTROL"
	TestNoGrace      = "RTL_TEST_NO_GRACE"
	TestFailStep     = "RTL_TEST_FAIL_STEP"
	TestFault        = "RTL_TEST_FAULT"
)

// Keys has all settings, in the order of struct rtl_config.
var Keys = []Key{
	{
		Name: BufferSize, Field: "buffer_size_bytes", Kind: Number,
		Default: 64 * mib, Min: 64 * kib, Max: 16 * gib, PowerOfTwo: true,
		Doc: "bytes of records in a ring",
	},
	{
		Name: BufferWatermark, Field: "buffer_watermark_percent", Kind: Number,
		Default: 75, Min: 1, Max: 100,
		Doc: "percent of the ring that wakes the collector",
	},
	{
		Name: BufferPolicy, Field: "buffer_policy", Kind: Choice,
		Choices: []string{"discard", "lossless"},
		Doc:     "when the ring is full: count and discard, or take a further ring up to the limit",
	},
	{
		Name: BufferLimit, Field: "buffer_limit_bytes", Kind: Number,
		Default: 1 * gib, Min: 64 * kib, Max: 1 * tib,
		Doc: "memory that the lossless policy may use for rings",
	},
	{
		Name: RecorderTimeout, Field: "recorder_timeout_ms", Kind: Number,
		Default: 5000, Min: 100, Max: hourMS,
		Doc: "a recorder without a heartbeat for this long is dead: detach",
	},
	{
		Name: GraceTimeout, Field: "grace_timeout_ms", Kind: Number,
		Default: 5000, Min: 1, Max: 12_000, // less than answerTimeout in internal/session, with time to arm
		Doc: "threads may take this long to leave the raw index functions",
	},
	{
		Name: DrainTimeout, Field: "drain_timeout_ms", Kind: Number,
		Default: 1000, Min: 0, Max: 10 * minuteMS,
		Doc: "a detach waits this long for kernels still running",
	},
	{
		Name: SignalPool, Field: "signal_pool", Kind: Number,
		Default: 4096, Min: 1, Max: 1 * mib,
		Doc: "signals created for each queue before it is recorded",
	},
	{
		Name: Stamp, Field: "stamp", Kind: Choice,
		Choices: []string{"tsc", "boottime"},
		Doc:     "clock that stamps the submit: the time-stamp counter, or CLOCK_BOOTTIME",
	},
	{
		Name: HSALibrary, Field: "hsa_library", Kind: Text, Max: 4096,
		Doc: "path of the HSA runtime to patch; empty: the only one loaded, or the one in use",
	},
	{
		Name: ThreadIDOffset, Field: "thread_id_offset", Kind: Number,
		Default: 0, Min: 0, Max: 0x900 - 4, // the end of glibc's struct pthread
		Doc: "offset of the thread id in the C library's thread descriptor, a multiple of 4; 0: find it",
	},
	{
		Name: Trace, Field: "trace", Kind: Set,
		Default: 1 << ring.KindDispatch,
		Doc:     "kinds of record to make: a bit for each (enum rtl_kind), dispatches always",
	},
	{
		Name: Operations, Field: "operations", Kind: Text, Max: 1024/4 + 1, // CALL_FUNCTIONS_MAX bits
		Doc: "functions of the recorded APIs: a bit for each, as hexadecimal digits; empty: all but the frequent ones",
	},
	{
		Name: Schedule, Field: "schedule", Kind: Text, Max: 1536, // SCHEDULE_RULES_MAX rules
		Doc: "when to record: CLOCK:DELAY:ON:REPEAT in ns, with commas; empty: from the attach on",
	},
	{
		Name: GPUs, Field: "gpus", Kind: Text, Max: 1024,
		Doc: "GPUs whose queues are recorded: ranges FIRST-LAST of their numbers and PCI addresses @ADDRESS, decimal, with commas; empty: all",
	},
	{
		Name: TestWedgeControl, Field: "test_wedge_control", Kind: Number,
		Default: 0, Min: 0, Max: 1, TestOnly: true,
		Doc: "1: the control thread answers no command",
	},
	{
		Name: TestNoGrace, Field: "test_no_grace", Kind: Number,
		Default: 0, Min: 0, Max: 1, TestOnly: true,
		Doc: "1: let queues flip without a grace",
	},
	{
		Name: TestFailStep, Field: "test_fail_step", Kind: Text, Max: 64, TestOnly: true,
		Doc: "the step of an attach or a detach at which the fault strikes, once",
	},
	{
		Name: TestFault, Field: "test_fault", Kind: Choice, TestOnly: true,
		Choices: []string{"fail", "hang", "die", "orphan"},
		Doc:     "what happens there: an error, a hang, SIGKILL of the target or of its recorder",
	},
}
