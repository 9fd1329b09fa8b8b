package filter

import (
	"fmt"
	"strings"
)

// mostGPUs limits the text that GPUs returns, in bytes.
const mostGPUs = 1000

// GPUs returns the GPUs whose kernels the filter keeps, as the payload's setting RTL_GPUS has them. It returns "" if the
// filter keeps those of all GPUs, or if the list is too long for a payload: then only the collector filters.
func (f *Filter) GPUs() string {
	if f == nil {
		return ""
	}
	var parts []string
	for _, r := range f.gpus.numbers {
		parts = append(parts, fmt.Sprintf("%d-%d", r.First, r.Last))
	}
	for _, address := range f.gpus.addresses {
		parts = append(parts, fmt.Sprintf("@%d", address))
	}
	text := strings.Join(parts, ",")
	if len(text) > mostGPUs {
		return ""
	}
	return text
}
