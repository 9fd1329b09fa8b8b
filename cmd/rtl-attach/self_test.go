package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOwnCommand: ownCommand is the tool's name only if a shell finds this file under it.
func TestOwnCommand(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if got := ownCommand(); got != self && got != os.Args[0] {
		t.Errorf("without one in the PATH: %q", got)
	}
	other := filepath.Join(dir, toolName)
	if err := os.WriteFile(other, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := ownCommand(); got != self && got != os.Args[0] {
		t.Errorf("with another in the PATH: %q", got)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, other); err != nil {
		t.Fatal(err)
	}
	if got := ownCommand(); got != toolName {
		t.Errorf("with itself in the PATH: %q", got)
	}
}
