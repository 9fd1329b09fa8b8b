package faultpoints

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

var named = regexp.MustCompile(`\b(?:session_step|fault_at)\("([^"]*)"\)`)

// TestAll: the payload has these steps, each once, and no others.
func TestAll(t *testing.T) {
	var found []string
	files, err := filepath.Glob("../../payload/src/*/*.[ch]")
	deeper, _ := filepath.Glob("../../payload/src/*/*/*.[ch]")
	files = append(files, deeper...)
	if err != nil || len(files) == 0 {
		t.Fatalf("no source of the payload: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range named.FindAllSubmatch(text, -1) {
			found = append(found, string(match[1]))
		}
	}
	slices.Sort(found)
	if all := slices.Sorted(slices.Values(append(All(), Beginning))); !slices.Equal(found, all) {
		t.Errorf("the payload's steps are\n%q, those that are tested\n%q", found, all)
	}
}
