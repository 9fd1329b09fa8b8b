package target

import (
	"slices"
	"testing"
)

func TestDevicesNote(t *testing.T) {
	var d Devices
	for _, link := range []string{
		"/dev/dri/renderD129", "/dev/dri/renderD128", "/dev/dri/renderDx", "/dev/dri/card0", "129",
		"socket:[5]", "/tmp/dev/kfd", "/dev/kfd2",
	} {
		d.note(link)
	}
	if d.KFD || !slices.Equal(d.Renders, []int{129, 128}) {
		t.Errorf("%+v", d)
	}
	if d.note("/dev/kfd"); !d.KFD {
		t.Errorf("%+v", d)
	}
}
