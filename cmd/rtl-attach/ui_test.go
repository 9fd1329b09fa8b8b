package main

import (
	"os"
	"path/filepath"
	"testing"
)

// saidOf calls fn with standard output going elsewhere, and returns what that says on
// the other.
func saidOf(t *testing.T, out *os.File, fn func()) string {
	t.Helper()
	talk, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer talk.Close()
	stdout, stderr := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	os.Stdout, os.Stderr = out, talk
	fn()
	text, err := os.ReadFile(talk.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
