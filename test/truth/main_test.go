// Package truth compares what the built tool records, attaching to unprepared
// programs, with what the simulated GPU says that it executed.
package truth

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
