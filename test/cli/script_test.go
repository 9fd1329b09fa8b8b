package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/guide"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// The tests' parent may ignore SIGHUP (nohup); the tool would inherit that.
func init() { signal.Notify(make(chan os.Signal, 1), unix.SIGHUP) }

// TestScripts runs the scripts in testdata/script at the repository's root. In
// addition to testscript's own commands they use
//
//	target NAME serve|slow-serve [NS]|hsastress|hangs MODE|forker|PROGRAM args…   starts one; $NAME is its pid
//	target NAME server N      a front end with N workers, the targets NAME0, NAME1, …; $NAME_MARK is in their command lines
//	successor NAME RANK       waits until that worker of a server has been replaced
//	tool CODE args…           runs the tool to its end; stdout and stderr are its output
//	exits CODE PROGRAM args…  runs another program, which runs the tool, to its end
//	begin NAME args…          starts the tool; $NAME is its pid
//	said NAME text            waits until it has printed the text
//	growing FILE              waits until it has begun to grow
//	finish NAME CODE          waits for its end; its output is in NAME.out and NAME.err
//	tell NAME letters         writes to the standard input of a target without /health
//	field NAME FIELD VALUE    waits until its /proc status has a field that begins so
//	holding FILE QUERY [NAME] waits until the query of a trace returns 1; the tool that writes it must not end before
//	send NAME SIGNAL          to a target or a tool
//	working NAME              a target with /health is unharmed, and works
//	launched NAME N           waits until it has launched so many kernels more
//	resting NAME              waits until no session is active in it
//	[!] stopped NAME          its main thread's state
//	traced NAME               waits until its main thread is traced
//	state NAME STATE          waits until the payload is active, draining, dormant
//	dead NAME                 waits for its end
//	explained CODE args…      as tool; it must say error, cause, fix and target
func TestScripts(t *testing.T) {
	testenv.Artefact(t, "rtl-attach")
	testscript.RunT(sideBySide{t}, scriptParams(filepath.Join("..", "..", "testdata", "script")))
}

// scriptParams returns the parameters for the scripts of a folder.
func scriptParams(dir string) testscript.Params {
	return testscript.Params{
		Dir:   dir,
		Setup: setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"target": startTarget, "tool": runTool, "exits": exits, "explained": runExplained, "begin": begin, "said": said,
			"growing": growing, "holding": holding, "finish": finish, "send": send, "working": working, "launched": launched, "resting": resting,
			"tell": tell, "field": field, "stopped": stopped, "dead": dead, "traced": traced,
			"state": state, "successor": successor,
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Geteuid() == 0, nil
			case "i386":
				return runsI386(), nil
			default:
				return false, fmt.Errorf("unknown condition %q", name)
			}
		},
	}
}

// runsI386 reports whether this kernel runs 32-bit programs.
func runsI386() bool {
	err := exec.Command(filepath.Join(testenv.BuildDir(), "victims/tiny32")).Run() // it ends with its input
	return !errors.Is(err, unix.ENOEXEC)
}

// sideBySide runs the scripts in parallel: each mostly waits for its recordings.
type sideBySide struct{ *testing.T }

// Parallel runs a script beside others. The one that attaches to all servers below its parent process runs alone, as that is the
// parent of all scripts' servers.
func (s sideBySide) Parallel() {
	if !strings.HasSuffix(s.Name(), "/several") {
		s.T.Parallel()
	}
}

func (s sideBySide) test() *testing.T { return s.T }

func (s sideBySide) Verbose() bool { return testing.Verbose() }

func (s sideBySide) Run(name string, f func(testscript.T)) {
	s.T.Run(name, func(t *testing.T) { f(sideBySide{t}) })
}

// A stage is what one script has started.
type stage struct {
	t       *testing.T
	targets map[string]*subject
	runs    map[string]*run
}

func setup(env *testscript.Env) error {
	t := env.T().(interface{ test() *testing.T }).test()
	env.Values["stage"] = &stage{t: t, targets: map[string]*subject{}, runs: map[string]*run{}}
	env.Setenv("PATH", testenv.BuildDir()+":"+os.Getenv("PATH"))
	env.Setenv("BUILD", testenv.BuildDir())
	env.Setenv("TERM", "dumb")
	env.Vars = append(env.Vars, testenv.ToolDefaults()...)
	return nil
}

func stageOf(ts *testscript.TestScript) *stage { return ts.Value("stage").(*stage) }

func (st *stage) target(ts *testscript.TestScript, args []string) *subject {
	if len(args) == 0 || st.targets[args[0]] == nil {
		ts.Fatalf("no such target: %q", args)
	}
	return st.targets[args[0]]
}

func (st *stage) run(ts *testscript.TestScript, args []string) *run {
	if len(args) == 0 || st.runs[args[0]] == nil {
		ts.Fatalf("no such run of the tool: %q", args)
	}
	return st.runs[args[0]]
}

func startTarget(ts *testscript.TestScript, _ bool, args []string) {
	st, name, program := stageOf(ts), args[0], args[1]
	var s *subject
	switch args = args[2:]; program {
	case "serve":
		s = serve(st.t, args...)
	case "hsastress":
		s = stress(st.t, args...)
	case "allocate": // it dispatches nothing
		s = start(st.t, onGPU(st.t, "workloads/allocate", "--threads", "4", "--pace", "20000"))
	case "hangs": // it answers nothing
		s = start(st.t, onGPU(st.t, "workloads/hangs", args...))
	case "slow-serve": // one kernel at a time, 4 s long or as many ns as said; its start waits for some, too
		length := append(args, "4000000000")[0]
		cmd := onGPU(st.t, "workloads/serve", "--threads", "1", "--streams", "1", "--rate", "100", "--kernels", "1", "--graph", "off")
		cmd.Env = append(cmd.Env, "SOFTGPU_KERNEL_NS="+length)
		s = start(st.t, cmd)
	case "forker":
		s = startForker(st.t).subject
	case "server":
		s = st.server(ts, name, args[0])
	default:
		s = bystander(st.t, program, args...)
	}
	st.targets[name] = s
	ts.Setenv(name, strconv.Itoa(s.pid))
}

// bystander is a process without a GPU.
func bystander(t *testing.T, program string, args ...string) *subject {
	t.Helper()
	if filepath.Base(program) != program {
		program = testenv.Artefact(t, program)
	}
	cmd := exec.Command(program, args...)
	in, err := cmd.StdinPipe() // held open: some end with it
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &subject{pid: cmd.Process.Pid, cmd: cmd, in: in}
}

func runTool(ts *testscript.TestScript, neg bool, args []string) {
	exits(ts, neg, append([]string{args[0], "rtl-attach"}, args[1:]...))
}

func exits(ts *testscript.TestScript, _ bool, args []string) {
	code, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != code {
		ts.Fatalf("exit code %d, want %d", got, code)
	}
}

// runExplained also checks the form that every error has.
func runExplained(ts *testscript.TestScript, neg bool, args []string) {
	runTool(ts, neg, args)
	said := ts.ReadFile("stderr")
	at := strings.Index(said, "rtl-attach: error: ")
	if at < 0 {
		ts.Fatalf("no error was printed")
	}
	lines := strings.Split(strings.TrimSpace(said[at:]), "\n")
	form := []string{"rtl-attach: error: ", "  cause   ", "  fix     ", "  target  "}
	if args[0] == "2" {
		form = slices.Delete(form, 1, 2) // the error is the cause
	}
	for i, begin := range form {
		if i >= len(lines) || !strings.HasPrefix(lines[i], begin) || len(lines[i]) == len(begin) {
			ts.Fatalf("line %d of the error does not begin with %q", i+1, begin)
		}
	}
	if len(lines) != len(form) {
		ts.Fatalf("an error has %d lines, this one %d", len(form), len(lines))
	}
	cause := strings.TrimPrefix(lines[1], form[1])
	if args[0] != "2" && !strings.HasSuffix(lines[0], ": "+cause) { // else the error's own text is all that is known
		isKnown(ts, cause)
	}
}

var knownMessages = sync.OnceValues(func() ([]guide.Message, error) { return guide.Messages(filepath.Join("..", "..")) })

// isKnown: a cause that is printed is one that is found in the code, so that the
// guide has it (internal/guide).
func isKnown(ts *testscript.TestScript, cause string) {
	messages, err := knownMessages()
	ts.Check(err)
	if !slices.ContainsFunc(messages, func(m guide.Message) bool { return m.IsIn(cause) }) {
		ts.Fatalf("internal/guide does not find this cause in the code: %s", cause)
	}
}

func begin(ts *testscript.TestScript, _ bool, args []string) {
	st, name := stageOf(ts), args[0]
	r := newRun(st.t, "", args[1:]...)
	r.Cmd.Dir = ts.Getenv("WORK")
	r.Start(st.t)
	st.runs[name] = r
	ts.Setenv(name, strconv.Itoa(r.Cmd.Process.Pid))
}

func said(ts *testscript.TestScript, _ bool, args []string) {
	stageOf(ts).run(ts, args).Says(stageOf(ts).t, strings.Join(args[1:], " "))
}

func growing(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	if !hang.Eventually(func() bool {
		info, err := os.Stat(path)
		return err == nil && info.Size() > 0
	}) {
		ts.Fatalf("%s does not grow", args[0])
	}
}

// holding waits until a query of a trace returns 1.
func holding(ts *testscript.TestScript, _ bool, args []string) {
	path, query := ts.MkAbs(args[0]), args[1]
	ended, said := func() bool { return false }, ""
	if len(args) > 2 {
		r := stageOf(ts).run(ts, args[2:])
		ended = func() bool { said = r.Stderr.String(); return r.HasEnded() }
	}
	var holds bool
	hang.Eventually(func() bool {
		over := ended() // before the last look
		out, err := exec.Command("sqlite3", "-readonly", path, query).Output()
		holds = err == nil && string(out) == "1\n"
		return holds || over
	})
	if !holds {
		ts.Fatalf("not in %s: %s\n%s", args[0], query, said)
	}
}

func finish(ts *testscript.TestScript, _ bool, args []string) {
	r := stageOf(ts).run(ts, args)
	code := r.Exit(stageOf(ts).t)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".out"), []byte(r.Stdout.String()), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".err"), []byte(r.Stderr.String()), 0o600))
	if want := args[1]; strconv.Itoa(code) != want {
		ts.Fatalf("exit code %d, want %s\n%s", code, want, r.Stderr.String())
	}
}

func send(ts *testscript.TestScript, _ bool, args []string) {
	signal := unix.SignalNum(args[1])
	if signal == 0 {
		ts.Fatalf("no such signal: %s", args[1])
	}
	pid, err := strconv.Atoi(ts.Getenv(args[0]))
	ts.Check(err)
	ts.Check(unix.Kill(pid, signal))
}

func tell(ts *testscript.TestScript, _ bool, args []string) {
	s := stageOf(ts).target(ts, args)
	if s.in == nil {
		ts.Fatalf("%s has no standard input of ours", args[0])
	}
	_, err := io.WriteString(s.in, args[1])
	ts.Check(err)
}

func field(ts *testscript.TestScript, _ bool, args []string) {
	s := stageOf(ts).target(ts, args)
	now := func() string { return statusOf(s.pid, strconv.Itoa(s.pid))[args[1]] }
	if !hang.Eventually(func() bool { return strings.HasPrefix(now(), args[2]) }) {
		ts.Fatalf("%s is %q", args[1], now())
	}
}

func working(ts *testscript.TestScript, _ bool, args []string) {
	stageOf(ts).target(ts, args).unharmed(stageOf(ts).t)
}

func launched(ts *testscript.TestScript, _ bool, args []string) {
	s, t := stageOf(ts).target(ts, args), stageOf(ts).t
	more, err := strconv.ParseUint(args[1], 10, 64)
	ts.Check(err)
	from := s.launches(t)
	if !hang.Eventually(func() bool { return s.launches(t) >= from+more }) {
		ts.Fatalf("no progress")
	}
}

func resting(ts *testscript.TestScript, _ bool, args []string) {
	stageOf(ts).target(ts, args).atRest(stageOf(ts).t)
}

func stopped(ts *testscript.TestScript, neg bool, args []string) {
	s := stageOf(ts).target(ts, args)
	if !hang.Eventually(func() bool {
		state := statusOf(s.pid, strconv.Itoa(s.pid))["State"]
		return strings.HasPrefix(state, "T") != neg
	}) {
		ts.Fatalf("it is %s", statusOf(s.pid, strconv.Itoa(s.pid))["State"])
	}
}

func traced(ts *testscript.TestScript, _ bool, args []string) {
	s := stageOf(ts).target(ts, args)
	if !hang.Eventually(func() bool {
		tracer := statusOf(s.pid, strconv.Itoa(s.pid))["TracerPid"]
		return tracer != "" && tracer != "0"
	}) {
		ts.Fatalf("nobody traces it")
	}
}

func state(ts *testscript.TestScript, _ bool, args []string) {
	s, t := stageOf(ts).target(ts, args), stageOf(ts).t
	if !hang.Eventually(func() bool { return s.status(t).State == args[1] }) {
		ts.Fatalf("its payload: %+v", s.status(t))
	}
}

func dead(ts *testscript.TestScript, _ bool, args []string) {
	stageOf(ts).target(ts, args).ended(stageOf(ts).t)
}
