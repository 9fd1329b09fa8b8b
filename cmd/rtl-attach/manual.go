//go:build rtlman

package main

// manual is the text of a command's manual page that its help does not have. Indented
// text is printed as it stands.
type manual struct{ exit, environment, files string }

const (
	noEnvironment = "None of its flags has a default in the environment."

	recordingEnvironment = `Every flag of a recording has a default in the environment: RTL_ATTACH_ and the flag's
name in capitals, with _ for -. A flag on the command line wins; an empty variable counts as none.
Of --set, --trigger, --control and --operations, each line of the variable is one value.

    RTL_ATTACH_DURATION=5s        --duration 5s
    RTL_ATTACH_OUTPUT=/data/t.db  --output /data/t.db
    RTL_ATTACH_QUIET=true         --quiet

SUDO_UID and SUDO_GID: the user that owns the trace, where root writes it.
TERM=dumb: no progress line.`

	recordingFiles = `    trace-PID-TIME.db   the trace, an SQLite database; --output names another
    FILE-journal        beside it while it is written; gone at the end
    .new-PID-FILE       with --force: the trace until it is complete`

	sortingEnvironment = noEnvironment + `

SQLITE_TMPDIR: the folder in which SQLite sorts what does not fit into memory; without
it, /var/tmp.`
)

// manuals has the texts by command name.
var manuals = map[string]manual{
	"rtl-attach": {exitTable, recordingEnvironment, recordingFiles},
	"record":     {exitTable, recordingEnvironment, recordingFiles},
	"run": {
		`The program's own; 128 + N if signal N has ended it. Without the program:

    1  it could not be started, or the trace not be made
    2  the command line is wrong

With --strict, if the program ends with 0:

    7  nothing was recorded
    8  some of its processes were not recorded
    9  records are missing, or a kind could not be recorded
   10  the recording ended early

or the code of the error that has prevented the recording: see rtl-attach(1).`,
		recordingEnvironment + `

HSA_TOOLS_LIB: the tools that the program's ROCm runtime loads. The program has the payload
behind those that are there.`,
		recordingFiles,
	},
	"detach": {
		`    0  the session has ended, or had ended before
    1  failed; the payload detaches by itself without a recorder
    2  the command line is wrong, or leaves open which server is meant
    3  no session, no such process, or not permitted
    6  something could not be restored; the message says what
    8  of several processes, some could not be detached from`,
		noEnvironment,
		"A recorder that still runs finishes its trace. No other file is written.",
	},
	"trigger": {
		`    0  the trace was written; its name is on standard output
    1  it was not
    2  the command line is wrong
    3  nothing is recorded there, no such process, or not permitted`,
		noEnvironment,
		"The recorder writes the trace, as its --output says.",
	},
	"flush": {
		`    0  everything that was recorded is in the trace
    1  it is not
    2  the command line is wrong
    3  nothing is recorded there, no such process, or not permitted`,
		noEnvironment,
		"No other file than the trace is written.",
	},
	"status": {
		`    0  the status was printed
    1  it could not be read or printed
    2  the command line is wrong
    3  no such process, or not permitted`,
		noEnvironment,
		"No file is written. /proc/PID is read.",
	},
	"stuck": {
		`    0  what was found was printed, whether or not something is stuck
    1  the processes could not be read, or the answer not be printed
    2  the command line is wrong
    3  no such process, or not permitted
    4  the process does not use ROCm`,
		noEnvironment,
		"No file is written. /proc/PID and /sys/class/kfd are read, and the files of libraries and code objects.",
	},
	"ps": {
		`    0  the list was printed; it may be incomplete, which is said
    1  it could not be made or printed
    2  the command line is wrong
    3  the /proc that is mounted here is of another pid namespace`,
		noEnvironment,
		"No file is written. /proc and /sys/class/kfd are read.",
	},
	"avail": {
		`    0  the list was printed
    1  the process could not be read, or the list not be printed
    2  the command line is wrong, or no function has such a name
    3  no such process, or not permitted
    4  the process does not use ROCm`,
		noEnvironment,
		"No file is written. Of a process, /proc/PID is read.",
	},
	"doctor": {
		`    0  nothing that can be seen from outside stands in the way
    1  it cannot be told without a stop, or the answer could not be printed
    2  the command line is wrong, or leaves open which server is meant

Any other code is the one with which an attach would end: see rtl-attach(1).`,
		"RTL_ATTACH_OUTPUT: the trace that there would be, as for a recording. Its other flags have no default in the environment.",
		"No file is written.",
	},
	"report": {
		`    0  the report was printed
    1  a trace could not be read, or the report not be printed
    2  the command line is wrong
    7  a trace has no timed dispatch, copy or call, or no dispatch in the window`,
		sortingEnvironment,
		"    FILE          the trace; it is only read\n    FILE-journal  what a killed recorder left; it is needed to read the trace",
	},
	"export": {
		`    0  the files were made
    1  a trace could not be read, or a file not be made; none is left
    2  the command line is wrong
    7  a trace has nothing to export; its file was made`,
		sortingEnvironment,
		"    FILE           the trace; it is only read\n    .new-PID-FILE  with --force: a file until all are complete",
	},
	"version": {
		"    0  the version was printed\n    1  it could not be printed\n    2  the command line is wrong",
		noEnvironment,
		"No file is read or written.",
	},
}
