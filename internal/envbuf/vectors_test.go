package envbuf

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The vectors are shared with payload/test/env_test.c. A new one is added here
// and written with -update; what is then in the .txt must be read, not trusted.
var update = flag.Bool("update", false, "rewrite the vectors")

const vectorDir = "../../testdata/envbuf"

// raw lays out a buffer that Encode may refuse to.
func raw(count uint32, body string) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, count), body...)
}

var vectors = map[string][]byte{
	"valid-empty":          raw(0, ""),
	"valid-all":            raw(16, allKeys),
	"valid-duplicate":      raw(2, "RTL_SIGNAL_POOL\x00007\x00RTL_SIGNAL_POOL\x0016\x00"),
	"valid-unknown":        raw(2, "HOME\x00/nowhere\x00RTL_NEWER\x00=x=\x00"),
	"valid-empty-text":     raw(1, "RTL_HSA_LIBRARY\x00\x00"),
	"valid-longest-text":   raw(1, "RTL_TEST_FAIL_STEP\x00"+strings.Repeat("s", 63)+"\x00"),
	"valid-largest":        raw(1, "X\x00"+strings.Repeat("v", MaxBytes-countBytes-3)+"\x00"),
	"bad-no-bytes":         {},
	"bad-count-truncated":  {1, 0, 0},
	"bad-too-long":         raw(1, "X\x00"+strings.Repeat("v", MaxBytes-countBytes-2)+"\x00"),
	"bad-count-too-large":  raw(0xffffffff, "A\x001\x00"),
	"bad-count-too-small":  raw(1, "A\x001\x00B\x002\x00"),
	"bad-trailing":         raw(0, "\x00"),
	"bad-name-open":        raw(1, "RTL_STAMP"),
	"bad-name-empty":       raw(1, "\x00v\x00"),
	"bad-name-equals":      raw(1, "RTL_STAMP=tsc\x00\x00"),
	"bad-value-missing":    raw(1, "RTL_STAMP\x00"),
	"bad-value-open":       raw(2, "A\x001\x00RTL_STAMP\x00tsc"),
	"bad-number-empty":     raw(1, "RTL_SIGNAL_POOL\x00\x00"),
	"bad-number-sign":      raw(1, "RTL_SIGNAL_POOL\x00-1\x00"),
	"bad-number-suffix":    raw(1, "RTL_BUFFER_SIZE\x0064MiB\x00"),
	"bad-number-low":       raw(1, "RTL_BUFFER_WATERMARK\x000\x00"),
	"bad-number-high":      raw(1, "RTL_BUFFER_WATERMARK\x00101\x00"),
	"bad-number-overflow":  raw(1, "RTL_SIGNAL_POOL\x0018446744073709551617\x00"),
	"bad-number-shadowed":  raw(2, "RTL_SIGNAL_POOL\x00x\x00RTL_SIGNAL_POOL\x0016\x00"),
	"bad-not-power-of-2":   raw(2, "A\x001\x00RTL_BUFFER_SIZE\x00100000\x00"),
	"bad-layout-and-value": raw(2, "RTL_SIGNAL_POOL\x00x\x00B\x00"), // the layout comes first
	"bad-choice":           raw(1, "RTL_BUFFER_POLICY\x00loss\x00"),
	"bad-choice-longer":    raw(1, "RTL_STAMP\x00tsc|boottime\x00"),
	"valid-set-empty":      raw(1, "RTL_TRACE\x00\x00"),
	"valid-set-order":      raw(1, "RTL_TRACE\x00memory-copy,memory-copy\x00"),
	"bad-set-unknown":      raw(1, "RTL_TRACE\x00dispatch,copies\x00"),
	"bad-set-prefix":       raw(1, "RTL_TRACE\x00memory\x00"),
	"bad-set-comma-last":   raw(1, "RTL_TRACE\x00dispatch,\x00"),
	"bad-set-comma-first":  raw(1, "RTL_TRACE\x00,dispatch\x00"),
	"bad-text-too-long":    raw(1, "RTL_TEST_FAIL_STEP\x00"+strings.Repeat("s", 64)+"\x00"),
}

const allKeys = "RTL_BUFFER_SIZE\x001048576\x00" +
	"RTL_BUFFER_WATERMARK\x0050\x00" +
	"RTL_BUFFER_POLICY\x00lossless\x00" +
	"RTL_BUFFER_LIMIT\x002147483648\x00" +
	"RTL_RECORDER_TIMEOUT_MS\x001000\x00" +
	"RTL_GRACE_TIMEOUT_MS\x00250\x00" +
	"RTL_DRAIN_TIMEOUT_MS\x000\x00" +
	"RTL_SIGNAL_POOL\x0064\x00" +
	"RTL_STAMP\x00boottime\x00" +
	"RTL_HSA_LIBRARY\x00/opt/rocm/lib/libhsa-runtime64.so.1\x00" +
	"RTL_THREAD_ID_OFFSET\x00720\x00" +
	"RTL_TRACE\x00dispatch,memory-copy\x00" +
	"RTL_OPERATIONS\x000c\x00" +
	"RTL_TEST_WEDGE_CONTROL\x001\x00" +
	"RTL_TEST_NO_GRACE\x001\x00" +
	"RTL_TEST_FAIL_STEP\x00patch slots\x00"

// outcome is what a .txt holds: every setting, or the fault.
func outcome(buf []byte) string {
	settings, err := parse(buf)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var b strings.Builder
	for _, k := range Keys {
		fmt.Fprintf(&b, "%s=%s\n", k.Name, settings[k.Name])
	}
	return b.String()
}

func parse(buf []byte) (map[string]string, error) {
	vars, err := Decode(buf)
	if err != nil {
		return nil, err
	}
	return Resolve(vars)
}

func TestVectors(t *testing.T) {
	for name, buf := range vectors {
		t.Run(name, func(t *testing.T) {
			bin := filepath.Join(vectorDir, name+".bin")
			txt := filepath.Join(vectorDir, name+".txt")
			if *update {
				write(t, bin, buf)
				write(t, txt, []byte(outcome(buf)))
			}
			stored, err := os.ReadFile(bin)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(stored, buf) {
				t.Errorf("%s is not what the table says", bin)
			}
			want, err := os.ReadFile(txt)
			if err != nil {
				t.Fatal(err)
			}
			if got := outcome(stored); got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			if strings.HasPrefix(name, "bad-") != strings.HasPrefix(string(want), "error: offset ") {
				t.Errorf("name and outcome disagree: %s", want)
			}
		})
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
