package flight

import (
	"path/filepath"
	"strings"
)

// Numbered returns a template with %n, the number of a trigger: before the suffix, if it has none.
func Numbered(template string) string {
	if strings.Contains(strings.ReplaceAll(template, "%%", ""), "%n") {
		return template
	}
	suffix := filepath.Ext(template)
	if strings.Contains(suffix, "%") {
		suffix = ""
	}
	return strings.TrimSuffix(template, suffix) + "-%n" + suffix
}
