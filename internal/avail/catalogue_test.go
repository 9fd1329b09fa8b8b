package avail

import (
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/all"
)

// Everything that a user would look for is there: views with columns, functions with arguments.
func TestList(t *testing.T) {
	c, err := List("1")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Kinds) != len(all.Kinds) || len(c.Sets) != len(all.Sets) || len(c.Modes) != len(all.Modes) || len(c.Settings) < 10 {
		t.Errorf("%d kinds, %d sets, %d modes, %d settings", len(c.Kinds), len(c.Sets), len(c.Modes), len(c.Settings))
	}
	for _, k := range c.Kinds {
		if k.Flag == "" || k.Records == "" || len(k.Tables) == 0 || len(k.Views) == 0 {
			t.Errorf("%+v", k)
		}
	}
	hip, known := c.KindNamed("--hip-runtime-trace")
	if !known || len(hip.Functions) < 300 || hip.JSONArray != "hip_api" || hip.Export != "csv-hip" || !slices.Contains(hip.ReportCSV, "hip-calls") {
		t.Errorf("%+v", hip)
	}
	if i := slices.IndexFunc(hip.Views, func(v View) bool { return v.Name == "call" }); i < 0 || !slices.Contains(hip.Views[i].Columns, "duration_ns") {
		t.Errorf("%+v", hip.Views)
	}
	for _, s := range c.Settings {
		if strings.HasPrefix(s.Name, "RTL_TEST") {
			t.Errorf("%s is listed", s.Name)
		}
	}
}

func TestMatching(t *testing.T) {
	c, err := List("1")
	if err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string][2]string{
		"hipFree":                 {"hipError_t hipFree(void * ptr)", Always},
		"hsa_signal_load_relaxed": {"hsa_signal_value_t hsa_signal_load_relaxed(hsa_signal_t signal)", OnRequest},
		"hsa_init":                {"hsa_status_t hsa_init()", Never},
	} {
		found, err := c.Matching(pattern)
		if err != nil || len(found) != 1 || strings.ReplaceAll(found[0].Prototype(), "*ptr", "* ptr") != want[0] || found[0].Recorded != want[1] {
			t.Errorf("%s: %+v, %v", pattern, found, err)
		}
	}
	if _, err := c.Matching("["); err == nil {
		t.Error("[ is a pattern")
	}
}
