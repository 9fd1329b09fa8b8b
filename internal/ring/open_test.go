package ring_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
)

func TestOpenRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		tamper func(h *ring.RingLayout)
		want   error
	}{
		"magic":          {func(h *ring.RingLayout) { h.Magic++ }, ring.ErrMalformed},
		"version":        {func(h *ring.RingLayout) { h.ABIVersion++ }, ring.ErrVersion},
		"generation":     {func(h *ring.RingLayout) { h.Generation++ }, ring.ErrMalformed},
		"size":           {func(h *ring.RingLayout) { h.SizeBytes *= 2 }, ring.ErrMalformed},
		"already read":   {func(h *ring.RingLayout) { h.Tail = 64 }, ring.ErrMalformed},
		"another length": {func(h *ring.RingLayout) { h.SizeBytes = 0 }, ring.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			p := ringtest.NewProducer(t, 4096)
			c.tamper(p.Header)
			if _, err := ring.Open(p.File, 1, maxRing); !errors.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	plain, err := os.Create(filepath.Join(t.TempDir(), "plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, err := ring.Open(plain, 1, maxRing); err == nil {
		t.Error("a file without seals was taken for a ring")
	}

	fd, err := unix.MemfdCreate("open", unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	unsealed := os.NewFile(uintptr(fd), "open")
	defer unsealed.Close()
	if _, err := ring.Open(unsealed, 1, maxRing); !errors.Is(err, ring.ErrMalformed) {
		t.Errorf("unsealed: %v", err)
	}

	for name, size := range map[string]int64{
		"empty": 0, "header only": ring.PageBytes, "not a power of two": ring.PageBytes + 4096 + 64,
		"beyond the limit": ring.PageBytes + 2*maxRing,
	} {
		if _, err := ring.Open(ringtest.Memfd(t, size), 1, maxRing); !errors.Is(err, ring.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCloseReleases: a ring that has been read to its end costs nothing more, whoever
// has it open; one that has not is left alone.
func TestCloseReleases(t *testing.T) {
	blocks := func(f *os.File) int64 {
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			t.Fatal(err)
		}
		return st.Blocks
	}
	for name, drains := range map[string]bool{"read": true, "unread": false} {
		t.Run(name, func(t *testing.T) {
			p := ringtest.NewProducer(t, 64<<10)
			for ringtest.Put(p, ring.Dispatch{}) {
			}
			r, err := ring.Open(p.File, 1, maxRing)
			if err != nil {
				t.Fatal(err)
			}
			p.Header.Ended = 1
			if drains {
				if _, err := r.Drain(64<<10, ignore); err != nil {
					t.Fatal(err)
				}
			}
			before := blocks(p.File)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if after := blocks(p.File); (after < before) != drains {
				t.Errorf("%d blocks before, %d after", before, after)
			}
		})
	}
}

// FuzzDrain: any bytes in a ring are read without a fault and without an endless loop.
func FuzzDrain(f *testing.F) {
	f.Add([]byte{}, uint64(0), uint64(64))
	f.Add([]byte{1, 0, 1, 0, 0, 0, 0, 0}, uint64(64), uint64(4096))
	f.Add([]byte{5, 0, 2, 0, 0, 0, 0, 0, 9, 0, 0, 0, 60, 0, 0, 0}, uint64(128), uint64(256))
	f.Fuzz(func(t *testing.T, lines []byte, head0, head1 uint64) {
		p := ringtest.NewProducer(t, 4096)
		r := open(t, p)
		for _, head := range []uint64{head0, head1} {
			copy(p.Lines, lines)
			p.Header.Head = head
			n, err := r.Drain(1000, func(rec *ring.Record) error {
				if len(rec.Text) > ring.StringMax {
					t.Fatalf("text of %d bytes", len(rec.Text))
				}
				return nil
			})
			if err != nil && !errors.Is(err, ring.ErrCorrupt) {
				t.Fatal(err)
			}
			if n > 64 {
				t.Fatalf("%d records from 64 lines", n)
			}
		}
	})
}
