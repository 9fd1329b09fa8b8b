package inject

import (
	"context"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// The main goroutine keeps the main thread: a tracer's goroutine must be able
// to end its OS thread.
func init() { runtime.LockOSThread() }

func open(t testing.TB, v *victim.Victim) *target.Target {
	t.Helper()
	if bootCode() == nil {
		testenv.Skip(t, ErrNotBuilt.Error())
	}
	tg, err := target.Open(v.PID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tg.Close)
	return tg
}

func tracer(t testing.TB) *ptrace.Tracer {
	tr := ptrace.NewTracer()
	t.Cleanup(tr.Close)
	return tr
}

func payload(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(victim.Path(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// env returns a buffer that the test payload accepts: the last byte is the length.
func env(n int) []byte {
	b := make([]byte, n)
	if n > 0 {
		b[n-1] = byte(n)
	}
	return b
}

func inject(t testing.TB, v *victim.Victim, tr *ptrace.Tracer, r Request) *Report {
	t.Helper()
	tg := open(t, v)
	defer tg.Close() // a table of descriptors that grows is waited for, see internal/session
	rep, err := Inject(context.Background(), tg, tr, r)
	if err != nil {
		t.Fatalf("inject: %v\n%+v", err, rep)
	}
	return rep
}

func percentile(d []time.Duration, p int) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(len(d)-1, len(d)*p/100)]
}

// floorOf measures the cost of a bare stop of a thread: seize, interrupt, detach, as
// often as the injection stopped one.
func floorOf(t testing.TB, v *victim.Victim, tr *ptrace.Tracer, tid, n int) (total, stopped []time.Duration) {
	t.Helper()
	tg := open(t, v)
	for range n {
		stat, err := tg.ThreadStat(tid)
		if err != nil {
			t.Fatal(err)
		}
		err = tr.Do(func() error {
			c := &ptrace.Tracee{TID: tid}
			return ptrace.Quiet(stat.CPU, func() error {
				if err := c.Seize(); err != nil {
					return err
				}
				begin := time.Now()
				_, err := c.Interrupt(stepPatience)
				seen := time.Now()
				if err != nil {
					return err
				}
				err = c.Release()
				total, stopped = append(total, time.Since(begin)), append(stopped, time.Since(seen))
				return err
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return total, stopped
}

func TestPauses(t *testing.T) {
	lib := payload(t, "payload.so")
	for _, tc := range []struct {
		name string
		args []string
	}{
		{"idle", []string{"futex", "read", "futex", "sleep"}},
		{"loaded", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := victim.Start(t, "busy", tc.args...)
			before := v.Inventory(t)
			tr := tracer(t)
			n := 60
			if testing.Short() {
				n = 10
			}
			var total, stopped, sum, elapsed, floor, floorStopped []time.Duration
			for range n {
				rep := inject(t, v, tr, Request{Library: lib, Entry: "rtl_attach", Env: env(3)})
				if rep.EntryResult != 30001 {
					t.Fatalf("entry returned %d", rep.EntryResult)
				}
				both := time.Duration(0)
				for _, p := range rep.Pauses {
					total, stopped = append(total, p.Time), append(stopped, p.Stopped)
					both += p.Time
				}
				sum, elapsed = append(sum, both), append(elapsed, rep.Elapsed)
				a, b := floorOf(t, v, tr, rep.TID, 2)
				floor, floorStopped = append(floor, a...), append(floorStopped, b...)
			}
			for _, row := range []struct {
				name string
				d    []time.Duration
			}{
				{"one stop, from its request", total},
				{"one stop, from the stop on", stopped},
				{"both stops", sum},
				{"floor, from its request", floor},
				{"floor, from the stop on", floorStopped},
				{"whole injection", elapsed},
			} {
				t.Logf("%-28s p50 %8v  p90 %8v  max %8v", row.name, percentile(row.d, 50), percentile(row.d, 90), percentile(row.d, 100))
			}
			v.Unharmed(t)
			v.AsBefore(t, before)
		})
	}
}
