package harness

import (
	"fmt"
	"strconv"
	"strings"
)

// scanLine reads the fields of a log's line into *string, *int, *int64 and *uint64. The logs of busy programs have
// hundreds of thousands of lines, and fmt.Sscan looks at each rune.
func scanLine(line string, into ...any) (err error) {
	fields := strings.Fields(line)
	if len(fields) < len(into) {
		return fmt.Errorf("%d fields, expected %d", len(fields), len(into))
	}
	for i, v := range into {
		switch v := v.(type) {
		case *string:
			*v = fields[i]
		case *int:
			*v, err = strconv.Atoi(fields[i])
		case *int64:
			*v, err = strconv.ParseInt(fields[i], 0, 64)
		case *uint64:
			*v, err = strconv.ParseUint(fields[i], 0, 64)
		default:
			err = fmt.Errorf("field %d: a %T cannot be read", i, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
