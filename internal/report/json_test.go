package report

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/internal/kind/copies"
	"github.com/rtl-attach/rtl-attach/internal/kind/markers"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// fieldNames adds the names of all JSON fields of a struct, and of the structs in it.
func fieldNames(t reflect.Type, names map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		fieldNames(t.Elem(), names)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
				names[name] = true
			}
			if f.IsExported() {
				fieldNames(f.Type, names)
			}
		}
	}
}

// TestJSONIsDocumented: docs/json.md names every field of the summary and the report, and
// the guide every reason of untimed dispatches.
func TestJSONIsDocumented(t *testing.T) {
	names := map[string]bool{}
	for _, v := range []any{Report{}, copies.Report{}, calls.Report{}, markers.Report{}} {
		fieldNames(reflect.TypeOf(v), names)
	}
	if len(names) < 60 {
		t.Fatalf("%d fields", len(names))
	}
	_, section, found := strings.Cut(read(t, "../../docs/json.md"), "\n## Summary and report\n")
	if !found {
		t.Fatal("docs/json.md has no section on the summary")
	}
	for name := range names {
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("docs/json.md does not have the field %s", name)
		}
	}
	guide := read(t, "../../docs/guide/reading-a-report.md")
	for id, reason := range tracedb.Reasons {
		isUntimed := ring.Reason(id) != ring.ReasonNone && ring.Reason(id) != ring.ReasonAfterDetach
		if isUntimed && !strings.Contains(guide, reason.Text+" (`"+reason.Name+"`)") {
			t.Errorf("the guide does not have the reason %s: %s", reason.Name, reason.Text)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
