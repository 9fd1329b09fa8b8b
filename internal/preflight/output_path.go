package preflight

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// DefaultOutput is the default template of a trace's path.
const DefaultOutput = "trace-%p-%t.db"

// placeholders are the letters that may follow a % in a template of a trace's path.
const placeholders = "pht%"

// UnknownPlaceholder returns the first unknown placeholder of a template, such as %q, or a % at
// its end; "": there is none.
func UnknownPlaceholder(template string) string {
	for {
		_, rest, found := strings.Cut(template, "%")
		if !found {
			return ""
		}
		name, size := utf8.DecodeRuneInString(rest)
		if size == 0 || !strings.ContainsRune(placeholders, name) {
			return "%" + rest[:size]
		}
		template = rest[size:]
	}
}

// OutputPath returns the path for a template; %n is the number of a flight recorder's trigger.
func OutputPath(template string, pid int, number uint64, now time.Time) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("host name: %w", err)
	}
	return strings.NewReplacer(
		"%%", "%",
		"%p", strconv.Itoa(pid),
		"%n", strconv.FormatUint(number, 10),
		"%h", strings.ReplaceAll(host, "/", "_"),
		"%t", now.Format("20060102-150405"),
	).Replace(template), nil
}
