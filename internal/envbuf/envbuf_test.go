package envbuf

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEncodeRefuses(t *testing.T) {
	for _, c := range []struct {
		v      Var
		offset int
	}{
		{Var{"", "x"}, 4},
		{Var{"A=B", "x"}, 5},
		{Var{"A\x00B", "x"}, 5},
		{Var{"AB", "x\x00y"}, 8},
		{Var{"A", strings.Repeat("x", MaxBytes)}, MaxBytes},
	} {
		_, err := Encode([]Var{c.v})
		var fault *Fault
		if !errors.As(err, &fault) || fault.Offset != c.offset || !errors.Is(err, ErrRefused) {
			t.Errorf("Encode(%.20q) = %v, want a fault at %d", c.v, err, c.offset)
		}
	}
}

// The table must not contain what the payload would refuse.
func TestDefaultsAreValid(t *testing.T) {
	var vars []Var
	for _, k := range Keys {
		vars = append(vars, Var{k.Name, k.defaultText()})
	}
	byDefault, err := Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	spelled, err := Resolve(vars)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range byDefault {
		if spelled[name] != value {
			t.Errorf("%s: %q, spelled out %q", name, value, spelled[name])
		}
	}
}

func TestHeaderIsCurrent(t *testing.T) {
	fresh := filepath.Join(t.TempDir(), "env_keys.h")
	if out, err := exec.Command("go", "run", "./genheader", "-o", fresh).CombinedOutput(); err != nil {
		t.Fatalf("genheader: %v\n%s", err, out)
	}
	want, err := os.ReadFile(fresh)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../payload/src/core/env_keys.h")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("payload/src/core/env_keys.h is not what keys.go says: run go generate ./internal/envbuf")
	}
}

// FuzzEncode: what can be encoded decodes to itself.
func FuzzEncode(f *testing.F) {
	f.Add("RTL_STAMP", "tsc", "A", "")
	f.Add("A", "1", "A", "2")
	f.Add("", "", "=", "\x00")
	f.Fuzz(func(t *testing.T, name0, value0, name1, value1 string) {
		vars := []Var{{name0, value0}, {name1, value1}}
		buf, err := Encode(vars)
		if err != nil {
			return
		}
		again, err := Decode(buf)
		if err != nil || !slices.Equal(vars, again) {
			t.Fatalf("%q became %q, %v", vars, again, err)
		}
	})
}

// FuzzDecode: what can be decoded encodes to itself, and faults lie inside the buffer.
func FuzzDecode(f *testing.F) {
	for _, buf := range vectors {
		f.Add(buf)
	}
	f.Fuzz(func(t *testing.T, buf []byte) {
		vars, err := Decode(buf)
		if err == nil {
			again, fault := Encode(vars)
			if fault != nil || !bytes.Equal(buf, again) {
				t.Fatalf("%q became %q, %v", buf, again, fault)
			}
			_, err = Resolve(vars)
		}
		var fault *Fault
		if errors.As(err, &fault) && (fault.Offset < 0 || fault.Offset > len(buf)) {
			t.Fatalf("fault at %d of %d bytes", fault.Offset, len(buf))
		}
	})
}
