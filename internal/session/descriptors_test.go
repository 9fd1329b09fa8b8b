package session

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestReserveDescriptors: the table is as large as eight members need.
func TestReserveDescriptors(t *testing.T) {
	reserveDescriptors(8)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "FDSize:")
	size, _, _ := strings.Cut(strings.TrimSpace(after), "\n")
	if n, err := strconv.Atoi(size); err != nil || n < descriptorsOfTool+8*descriptorsOfMember {
		t.Errorf("a table of %s descriptors", size)
	}
}
