package launch

import (
	"fmt"
	"regexp"
	"strings"
)

// off matches the values with which runtimes take the variable HSA_TOOLS_ROCPROFILER_V1_TOOLS for false.
var off = regexp.MustCompile(`^(?i:0+|off|false|no|n|f)$`)

// WhyIgnored returns the setting of an environment with which a runtime may have ignored the payload: that of
// HSA_TOOLS_ROCPROFILER_V1_TOOLS, or just HSA_TOOLS_LIB, without which Start would have set the other one; "": none.
func WhyIgnored(environ []string) string {
	var list, older string
	set := false
	for _, v := range environ {
		switch name, value, _ := strings.Cut(v, "="); name {
		case toolsVariable:
			list = strings.TrimSpace(value)
		case olderTools:
			older, set = value, true
		}
	}
	switch {
	case set && off.MatchString(older):
		return fmt.Sprintf("%s=%.20s", olderTools, older)
	case !set && list != "":
		return toolsVariable
	}
	return ""
}
