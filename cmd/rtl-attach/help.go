package main

const purpose = `rtl-attach records the GPU timeline of a ROCm process that is already running
and was started without any preparation, and leaves the process as it was.

Ctrl-C ends the recording; a second Ctrl-C does not wait for kernels that still run.`

const longHelp = purpose + `

The flags of a recording have defaults in the environment: RTL_ATTACH_DURATION=5s
is --duration 5s. doctor takes RTL_ATTACH_OUTPUT.

Exit codes, and how the process is left:

` + exitTable

const exitTable = `    0  records exist, the detach is confirmed           detached
    1  failed, and rolled back                          as found
    2  the command line is wrong, or ambiguous          not touched
    3  not permitted, already traced, no such process   not touched
    4  unsuitable: no ROCm, static, other architecture  not touched
    5  the process exited while attached                gone; the trace is saved
    6  something could not be restored                  as the message says
    7  nothing was recorded                             detached
    8  some of several processes failed                 each as the message says
    9  with --strict: records or kinds are missing      detached
   10  with --strict: it ended early                    detached`

const examples = `  rtl-attach ps                              which processes use ROCm here
  rtl-attach doctor 41220                    would an attach work, and if not, why
  rtl-attach avail                           what can be recorded
  rtl-attach -p 41220 -d 5s                  attach, record, detach, summarise
  rtl-attach report trace-41220-….db         what the trace says
  rtl-attach export trace-41220-….db         for ui.perfetto.dev`

const runHelp = `run starts a program whose ROCm runtime loads the payload (HSA_TOOLS_LIB), and records each
process of it that uses a GPU from before its first kernel on, into one trace.

The program has the tool's standard files, terminal, folder and environment. Signals are passed on
to it. The summary goes to standard error. The exit code is the program's (128 + N if signal N has
ended it); with --strict, if the program ends with 0, one of those of rtl-attach.`

const stuckHelp = `stuck looks twice at the queues of PID and of the GPU processes below it, and at their threads, and
says what stands still: the packet at the read index of each queue, its kernel, the signals that it waits for
and who would set them, and where threads wait and since when. Of several processes it says which are inside a collective
operation (--collectives names others than known libraries'), and which are not.

It only reads (/proc): nothing is attached, stopped or written, and it works on processes that hang in their runtime,
are stopped, or are traced by a debugger. Of a thread that runs, the kernel takes a sample (perf_event_open). A kernel that takes longer than
--duration looks like one that hangs.`

// Examples of each command.
const (
	stuckExamples = `  sudo rtl-attach stuck 41220            what it waits for, in sentences
  sudo rtl-attach stuck 41220 -d 10s     look again after 10 s
  sudo rtl-attach stuck 41220,41221      which rank has not entered the collective
  sudo rtl-attach stuck 41220 --json     everything, for scripts`
	runExamples = `  rtl-attach run -- python train.py
  rtl-attach run -o t.db --hip-trace -- ./a.out --its-own-flag
  rtl-attach run -d 10s -- ./a.out       the first ten seconds; the program goes on`
	detachExamples = `  rtl-attach detach 41220          end the session, whoever records
  rtl-attach detach 41220 -v       and say what is done`
	triggerExamples = `  rtl-attach trigger 41220         write what the flight recorder of 41220 has kept`
	flushExamples   = `  rtl-attach flush 41220           then read the trace that is being recorded`
	statusExamples  = `  rtl-attach status 41220          what is loaded, and what is left
  rtl-attach status 41220 --json   for scripts`
	psExamples = `  sudo rtl-attach ps               all of them
  rtl-attach ps --json             for scripts`
	availExamples = `  rtl-attach avail                 kinds of record, sets, modes
  rtl-attach avail 'hipMemcpy*'    functions with their arguments
  rtl-attach avail --kind --memory-copy-trace
  sudo rtl-attach avail 41220      what can be recorded of this process`
	doctorExamples = `  rtl-attach doctor                this machine
  sudo rtl-attach doctor 41220     an attach to this process`
	reportExamples = `  rtl-attach report t.db                         everything
  rtl-attach report t.db --window 1:2.5          from 1 s to 2.5 s after the attach
  rtl-attach report t.db --csv=gaps              one table
  rtl-attach report t.db --sql 'SELECT * FROM top'`
	exportExamples = `  rtl-attach export t.db                         t.pftrace, for ui.perfetto.dev
  rtl-attach export t.db -f chrome -o t.json     not compressed
  rtl-attach export t.db -f csv -o - | head      to standard output
  rtl-attach export t.db -f rocprofv3 --force    replace what is there`
	versionExamples = `  rtl-attach version`
)
