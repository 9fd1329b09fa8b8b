package cli

import (
	"fmt"
	"io"
	"strconv"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// A forker is a target that is told what to do by letters.
type forker struct {
	*subject
	in io.WriteCloser
}

func startForker(t *testing.T) *forker {
	cmd := onGPU(t, "victims/forker")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	return &forker{subject: start(t, cmd), in: in}
}

func (f *forker) tell(t *testing.T, letter string) string {
	t.Helper()
	if _, err := io.WriteString(f.in, letter); err != nil {
		t.Fatal(err)
	}
	return f.line(t)
}

func (f *forker) ran(t *testing.T) (n int) {
	t.Helper()
	said := f.tell(t, "n")
	if _, err := fmt.Sscanf(said, "ran %d", &n); err != nil {
		t.Fatalf("the target said %q", said)
	}
	return n
}

// TestFork: children of a target that is being recorded are sane, and know
// nothing of the recording; the recording knows nothing of them.
func TestFork(t *testing.T) {
	f := startForker(t)
	before := f.inventory(t)
	r := f.record(t, hang.Limit)
	r.Says(t, "attached")
	from := f.ran(t)
	for range testenv.Times(20, 200) {
		if said := f.tell(t, "f"); said != "child 0" {
			t.Fatalf("a child that is forked while recording ended: %s", said)
		}
	}
	child := f.keep(t)
	if st := child.status(t); st.Resident {
		t.Errorf("the child counts as attached: %+v", st)
	}
	if n := child.count(t, "task"); n != 1 {
		t.Errorf("the child has %d threads", n)
	}
	if code := tool(t, "", "detach", strconv.Itoa(child.pid)).Exit(t); code != 3 {
		t.Errorf("detach from the child: exit code %d", code)
	}
	if said := f.tell(t, "e"); said != "child 0" {
		t.Errorf("the child that stayed ended: %s", said)
	}
	if st := f.status(t); st.State != "active" || st.Recorder != r.Cmd.Process.Pid {
		t.Errorf("the parent's recording did not go on: %+v", st)
	}
	tool(t, "", "detach", strconv.Itoa(f.pid)).MustExit(t, 0)
	ran := f.ran(t) - from
	// Barrier packets carry no kernel: none is timed, and the tool says so.
	if code := r.Exit(t); code != 7 || ran == 0 {
		t.Errorf("exit code %d, %d packets ran\n%s", code, ran, r.Stderr.String())
	}
	f.onlyDormant(t, before)
	if said := f.tell(t, "f"); said != "child 0" {
		t.Errorf("a child after the detach ended: %s", said)
	}
	_ = f.in.Close()
	if status := f.ended(t); status != 0 {
		t.Errorf("the target ended with %#x", status)
	}
}

// keep makes a child that stays.
func (f *forker) keep(t *testing.T) *subject {
	t.Helper()
	child := &subject{}
	said := f.tell(t, "k")
	if _, err := fmt.Sscanf(said, "kept %d", &child.pid); err != nil {
		t.Fatalf("the target said %q", said)
	}
	return child
}
