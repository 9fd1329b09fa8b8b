package truth

import (
	"slices"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"golang.org/x/sys/unix"
)

// It is not documented when real firmware reads the write index, and how far ahead it fetches.
// Recordings must be correct in each possible mode.
func TestModes(t *testing.T) {
	for _, mode := range []string{"eager", "late", "prefetch", "ts-late", "stale-index", "late,prefetch", "eager,prefetch,ts-late"} {
		t.Run(mode, func(t *testing.T) {
			w := harness.Stress(10, 3, 64)
			w.Sim = []string{"SOFTGPU_MODE=" + mode}
			p := harness.Start(t, w)
			run := p.RecordLast(t, 500*time.Millisecond, 2000)
			check(t, p, p.TIDs(), run).MustHaveRecorded(500)
		})
	}
}

func TestModesServe(t *testing.T) {
	// Not ts-late: HIP itself reads times too early then, and the server aborts untraced.
	for _, mode := range []string{"eager", "late", "prefetch", "stale-index"} {
		t.Run(mode, func(t *testing.T) {
			p := harness.Start(t, harness.Workload{
				Program: "serve", Args: []string{"--threads", "3", "--streams", "4"}, Sim: []string{"SOFTGPU_MODE=" + mode},
			})
			run := p.RecordLast(t, 500*time.Millisecond, 2000)
			check(t, p, p.TIDs(), run).MustHaveRecorded(500)
		})
	}
}

// On AMD's newest GPUs dispatches are packets of the vendor's, which may wait for a signal. They
// are recorded as others are, in each mode, and from one attach to the next.
func TestExtended(t *testing.T) {
	for name, c := range map[string]struct{ sim, share string }{
		"all":      {"", "1"},
		"half":     {"", "2"},
		"eager":    {"SOFTGPU_MODE=eager", "2"},
		"prefetch": {"SOFTGPU_MODE=late,prefetch", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := harness.Stress(10, 3, 64, "--extended", c.share)
			if c.sim != "" {
				w.Sim = []string{c.sim}
			}
			p := harness.Start(t, w)
			runs := append(p.Reattach(t, 6), p.RecordLast(t, 300*time.Millisecond, 2000))
			comparison := check(t, p, p.TIDs(), runs...)
			comparison.MustHaveRecorded(500)
			if comparison.Extended < 200 || comparison.App == 0 {
				t.Errorf("%d extended dispatches recorded, %d with the application's signal", comparison.Extended, comparison.App)
			}
		})
	}
}

// recordToRest makes a recording at whose end the program rests, and looks for the payload's
// signals in its rings then.
func recordToRest(t *testing.T, p *harness.Process) harness.Run {
	t.Helper()
	r := p.Begin(t, "-d", "1m", "--buffer-size", "4MiB")
	r.Says(t, "attached")
	harness.Until(t, "it has dispatched under the recording", p.Dispatches(t, 1000))
	ask(t, p, "/pause")
	r.Interrupt(t)
	run := r.Wait(t)
	run.MustBe(t, failure.OK)
	if err := run.Decode(); err != nil {
		t.Fatal(err)
	}
	if text := ask(t, p, "/signals"); text != "strange 0\n" {
		t.Errorf("after a detach: %q", text)
	}
	ask(t, p, "/resume")
	return run
}

func ask(t *testing.T, p *harness.Process, path string) string {
	t.Helper()
	text, err := p.Get(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Rings in the GPU's memory, which process_vm_readv cannot read: after each detach there is no
// signal of the payload's in a slot, and everything is executed once.
func TestDeviceRings(t *testing.T) {
	needsSecretMemory(t)
	for name, args := range map[string][]string{"full": nil, "paced": {"--pace", "300"}, "extended": {"--extended", "2"}} {
		t.Run(name, func(t *testing.T) {
			w := harness.Stress(10, 3, 64, args...)
			w.Sim = []string{"SOFTGPU_MODE=device-ring"}
			p := harness.Start(t, w)
			var runs []harness.Run
			for range 6 {
				runs = append(runs, recordToRest(t, p), p.RecordShortly(t, 80*time.Millisecond))
			}
			runs = append(runs, p.RecordLast(t, 300*time.Millisecond, 2000))
			check(t, p, p.TIDs(), runs...).MustHaveRecorded(500)
		})
	}
}

func needsSecretMemory(t *testing.T) {
	t.Helper()
	fd, err := unix.MemfdSecret(0)
	if err != nil {
		testenv.Skip(t, "no memfd_secret: "+err.Error())
	}
	unix.Close(fd)
}

// A GPU that reads the index without a doorbell has producers that never ring.
func TestNoDoorbells(t *testing.T) {
	w := harness.Stress(6, 2, 64, "--doorbell", "0")
	w.Sim = []string{"SOFTGPU_MODE=eager"}
	p := harness.Start(t, w)
	run := p.RecordLast(t, 500*time.Millisecond, 2000)
	check(t, p, p.TIDs(), run).MustHaveRecorded(500)
}

// Each PCI domain may have a GPU with the same bus address.
func TestDomains(t *testing.T) {
	w := harness.Stress(4, 4, 256)
	w.Sim = []string{"SOFTGPU_GPUS=2", "SOFTGPU_DOMAINS=1"}
	p := harness.Start(t, w)
	run := p.RecordLast(t, 300*time.Millisecond, 2000)
	check(t, p, p.TIDs(), run).MustHaveRecorded(500)
	var pci []string
	for _, g := range run.Summary.GPUs {
		pci = append(pci, g.PCI)
	}
	if !slices.Equal(pci, []string{"0001:10:00.0", "0002:10:00.0"}) {
		t.Errorf("GPUs at %v", pci)
	}
}

// The payload does not see the dispatches of a producer with its own index, but counts such
// queues.
func TestPrivateIndex(t *testing.T) {
	p := harness.Start(t, harness.Stress(2, 1, 64, "--kind", "10"))
	run := p.TryRecordUntil(t, 500*time.Millisecond, 1000)
	run.MustBe(t, failure.NothingSeen)
	if err := run.Decode(); err != nil {
		t.Fatal(err)
	}
	if c := run.Summary.Coverage; c.QueuesSeen != 2 || c.QueuesRecorded != 0 || c.Complete() {
		t.Errorf("%+v\n%s", c, run.Stderr)
	}
	p.StillAlive(t)
}

// Each GPU has its own clock, and queues must be shown on their GPU.
func TestGPUs(t *testing.T) {
	for _, c := range []struct {
		name string
		w    harness.Workload
	}{
		{"stress-2", harness.Stress(6, 4, 256)},
		{"stress-4", harness.Stress(8, 8, 128)},
		{"serve-4", harness.Workload{Program: "serve", Args: []string{"--threads", "4", "--streams", "8"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.w.Sim = []string{"SOFTGPU_GPUS=" + c.name[len(c.name)-1:]}
			p := harness.Start(t, c.w)
			run := p.RecordLast(t, 700*time.Millisecond, 2000)
			comparison := check(t, p, p.TIDs(), run)
			comparison.MustHaveRecorded(500)
			if want := int(c.name[len(c.name)-1] - '0'); comparison.GPUs() != want {
				t.Errorf("dispatches recorded on %d GPUs, expected %d", comparison.GPUs(), want)
			}
		})
	}
}
