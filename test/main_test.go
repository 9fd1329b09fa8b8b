// Package test compares what the built tool records, attaching to unprepared
// programs, with what the simulated GPU says that it executed.
package test

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
