//go:build ignore

// The input of `go tool cgo -godefs`: names what Go needs of the C header.
// genabi runs it and writes abi.go.
package ring

/*
#include "abi.h"
#include "kinds/dispatch/dispatch_abi.h"
*/
import "C"

const (
	ABIVersion   = C.RTL_ABI_VERSION
	ControlMagic = C.RTL_CONTROL_MAGIC
	RingMagic    = C.RTL_RING_MAGIC
	ControlName  = C.RTL_CONTROL_NAME
	RingName     = C.RTL_RING_NAME
	Launched     = C.RTL_LAUNCHED

	PageBytes      = C.RTL_PAGE
	LineBytes      = C.RTL_LINE
	CountersOffset = C.RTL_COUNTERS_OFFSET
	GraceOffset    = C.RTL_GRACE_OFFSET
	ScheduleOffset = C.RTL_SCHEDULE_OFFSET
	EnvOffset      = C.RTL_ENV_OFFSET
	EnvMax         = C.RTL_ENV_MAX
	ControlBytes   = C.RTL_CONTROL_SIZE
	TextMax        = C.RTL_TEXT_MAX
	BuildIDMax     = C.RTL_BUILD_ID_MAX
	StringMax      = C.RTL_STRING_MAX
	DetachMostMS   = C.RTL_DETACH_MOST_MS
	KindsMax       = C.RTL_KINDS_MAX
	ReasonsMax     = C.RTL_REASONS_MAX
	KindTypes      = C.RTL_KIND_TYPES // record types from here on belong to kinds
	GraceRanges    = C.RTL_GRACE_RANGES
	GraceAsk       = C.RTL_GRACE_ASK

	FlagAppSignal       = C.RTL_FLAG_APP_SIGNAL
	FlagBarrier         = C.RTL_FLAG_BARRIER
	FlagSubmitUnknown   = C.RTL_FLAG_SUBMIT_UNKNOWN
	QueueProfilingOurs  = C.RTL_QUEUE_PROFILING_OURS
	stringTextOffset    = C.sizeof_struct_rtl_header + 8
	ControlStructBytes  = C.sizeof_struct_rtl_control
	CountersStructBytes = C.sizeof_struct_rtl_counters
	GraceStructBytes    = C.sizeof_struct_rtl_grace
	RingStructBytes     = C.sizeof_struct_rtl_ring
)

// State is the payload's state (enum rtl_state).
type State C.enum_rtl_state

const (
	StateIdle     State = C.RTL_STATE_IDLE
	StateArming   State = C.RTL_STATE_ARMING
	StateActive   State = C.RTL_STATE_ACTIVE
	StateDraining State = C.RTL_STATE_DRAINING
	StateDormant  State = C.RTL_STATE_DORMANT
	StateOff      State = C.RTL_STATE_OFF
)

// Command is a command to the control thread (enum rtl_command).
type Command C.enum_rtl_command

const (
	CommandNone     Command = C.RTL_COMMAND_NONE
	CommandPing     Command = C.RTL_COMMAND_PING
	CommandReattach Command = C.RTL_COMMAND_REATTACH
	CommandDetach   Command = C.RTL_COMMAND_DETACH
	CommandStart    Command = C.RTL_COMMAND_START
	CommandDisable  Command = C.RTL_COMMAND_DISABLE
	CommandEnable   Command = C.RTL_COMMAND_ENABLE
)

// End says why a session ended (enum rtl_end).
type End C.enum_rtl_end

const (
	EndNone         End = C.RTL_END_NONE
	EndDetach       End = C.RTL_END_DETACH
	EndOtherTool    End = C.RTL_END_OTHER_TOOL
	EndRecorderDead End = C.RTL_END_RECORDER_DEAD
	EndShutDown     End = C.RTL_END_SHUT_DOWN
	EndExit         End = C.RTL_END_EXIT
	EndArmFailed    End = C.RTL_END_ARM_FAILED
	EndPeriod       End = C.RTL_END_PERIOD
	EndSchedule     End = C.RTL_END_SCHEDULE
)

// Reason says why a record has no times (enum rtl_reason).
type Reason C.enum_rtl_reason

const (
	ReasonNone           Reason = C.RTL_REASON_NONE
	ReasonAfterDetach    Reason = C.RTL_REASON_AFTER_DETACH
	ReasonNoSignal       Reason = C.RTL_REASON_NO_SIGNAL
	ReasonBacklog        Reason = C.RTL_REASON_BACKLOG
	ReasonSharedSignal   Reason = C.RTL_REASON_SHARED_SIGNAL
	ReasonRearmed        Reason = C.RTL_REASON_REARMED
	ReasonDestroyed      Reason = C.RTL_REASON_DESTROYED
	ReasonNotCompleted   Reason = C.RTL_REASON_NOT_COMPLETED
	ReasonSignalTable    Reason = C.RTL_REASON_SIGNAL_TABLE
	ReasonNoTimes        Reason = C.RTL_REASON_NO_TIMES
	ReasonQueueDestroyed Reason = C.RTL_REASON_QUEUE_DESTROYED
	ReasonCount          Reason = C.RTL_REASON_COUNT
)

// Verdict is the tool's answer about a thread in the grace period (enum rtl_verdict).
type Verdict C.enum_rtl_verdict

const (
	VerdictNone    Verdict = C.RTL_VERDICT_NONE
	VerdictOutside Verdict = C.RTL_VERDICT_OUTSIDE
	VerdictInside  Verdict = C.RTL_VERDICT_INSIDE
	VerdictGone    Verdict = C.RTL_VERDICT_GONE
	VerdictUnknown Verdict = C.RTL_VERDICT_UNKNOWN
)

// Type is the layout of a record (enum rtl_type; from KindTypes on, the kinds' own).
type Type C.enum_rtl_type

const (
	TypePad         Type = C.RTL_TYPE_PAD
	TypeKindAccount Type = C.RTL_TYPE_KIND_ACCOUNT
	TypeWindow      Type = C.RTL_TYPE_WINDOW
	TypeLost        Type = C.RTL_TYPE_LOST
	TypeString      Type = C.RTL_TYPE_STRING
	TypeLaunch      Type = C.RTL_TYPE_LAUNCH
	TypeQueue       Type = C.RTL_TYPE_QUEUE
	TypeAgent       Type = C.RTL_TYPE_AGENT
	TypeCodeObject  Type = C.RTL_TYPE_CODE_OBJECT
	TypeEnd         Type = C.RTL_TYPE_END
	TypePeriod      Type = C.RTL_TYPE_PERIOD
	TypeCounters    Type = C.RTL_TYPE_COUNTERS
	TypeUnavailable Type = C.RTL_TYPE_KIND_UNAVAILABLE
	TypeDispatch    Type = C.RTL_TYPE_DISPATCH
	TypeUntimed     Type = C.RTL_TYPE_UNTIMED
)

// Clock is a clock of a schedule (enum rtl_clock).
type Clock C.enum_rtl_clock

const (
	ClockBoottime  Clock = C.RTL_CLOCK_BOOTTIME
	ClockRealtime  Clock = C.RTL_CLOCK_REALTIME
	ClockMonotonic Clock = C.RTL_CLOCK_MONOTONIC
	ClockCPUTime   Clock = C.RTL_CLOCK_CPUTIME
	Clocks         Clock = C.RTL_CLOCKS
)

// PeriodWhat is what a period record says (enum rtl_period_what).
type PeriodWhat C.enum_rtl_period_what

const (
	PeriodBegin  PeriodWhat = C.RTL_PERIOD_BEGIN
	PeriodMissed PeriodWhat = C.RTL_PERIOD_MISSED
	PeriodLast   PeriodWhat = C.RTL_PERIOD_LAST
)

// WindowKind distinguishes the two ends of a window (enum rtl_window_kind).
type WindowKind C.enum_rtl_window_kind

const (
	WindowOpen  WindowKind = C.RTL_WINDOW_OPEN
	WindowClose WindowKind = C.RTL_WINDOW_CLOSE
)

// The structs of the control memfd.
type (
	Recorder      C.struct_rtl_recorder
	ControlLayout C.struct_rtl_control
	Counters      C.struct_rtl_counters
	KindCounters  C.struct_rtl_kind_counters
	Range         C.struct_rtl_range
	GraceLayout   C.struct_rtl_grace
	Status        C.struct_rtl_status
	Schedule      C.struct_rtl_schedule
)

// The structs of the ring memfd.
type (
	RingLayout  C.struct_rtl_ring
	Header      C.struct_rtl_header
	Dispatch    C.struct_rtl_dispatch
	Untimed     C.struct_rtl_untimed
	Window      C.struct_rtl_window
	LostRecord  C.struct_rtl_lost
	StringLine  C.struct_rtl_string
	Launch      C.struct_rtl_launch
	Queue       C.struct_rtl_queue
	Agent       C.struct_rtl_agent
	CodeObject  C.struct_rtl_code_object
	KindAccount C.struct_rtl_kind_account
	Unavailable C.struct_rtl_kind_unavailable
	EndRecord   C.struct_rtl_end_record

	CountersRecord C.struct_rtl_counters_record
	Period         C.struct_rtl_period
)
