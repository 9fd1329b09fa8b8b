package schedule

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/ring"
)

func TestParsePeriods(t *testing.T) {
	for _, c := range []struct {
		text, unit, setting, err string
	}{
		{"1:2:3", "sec", "boottime:1000000000:2000000000:3", ""},
		{"0:0.5:0", "hour", "boottime:0:1800000000000:0", ""},
		{"10:5:1,20:6:2", "msec", "boottime:10000000:5000000:1,boottime:20000000:6000000:2", ""},
		{"0:1000:1", "usec", "boottime:0:1000000:1", ""},
		{"0:999:1", "usec", "", "at least 1ms"},
		{"0:1000000:1", "nsec", "boottime:0:1000000:1", ""},
		{"1:2:3 0:1:1", "sec", "boottime:1000000000:2000000000:3,boottime:0:1000000000:1", ""},
		{"", "sec", "", "not of the form"},
		{"1:1:0,1:1:1", "min", "", "must be the last"},
		{"1:1", "sec", "", "not of the form START:ON:REPEAT"},
		{"1:1:1:1", "sec", "", "not of the form"},
		{"-1:1:1", "sec", "", "not a number of sec"},
		{"1:NaN:1", "sec", "", "not a number"},
		{"1:1:x", "sec", "", "repetitions"},
		{"1:1:1", "week", "", "one of hour"},
		{"1:9000:1", "hour", "", "not a number of hour"},
		{strings.Repeat("1:1:1,", 16) + "1:1:1", "sec", "", "at most 16"},
	} {
		got, err := ParsePeriods(c.text, c.unit)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s %s: error %v, expected %q", c.text, c.unit, err, c.err)
		}
		if err == nil && got.Setting() != c.setting {
			t.Errorf("%s %s: %q, expected %q", c.text, c.unit, got.Setting(), c.setting)
		}
	}
}

func TestParse(t *testing.T) {
	got, err := Parse("realtime:1s:2s:3,cputime:0s:10ms:0", time.ParseDuration)
	want := Schedule{
		{Clock: ring.ClockRealtime, Delay: time.Second, On: 2 * time.Second, Repeat: 3},
		{Clock: ring.ClockCPUTime, On: 10 * time.Millisecond},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if !got.IsOfProcess() || got[:1].IsOfProcess() || got.FirstDelay() != time.Second || got[1:].FirstDelay() != 0 {
		t.Errorf("of process %t, first delay %v", got.IsOfProcess(), got.FirstDelay())
	}
	for _, bad := range []string{"", "sundial:1s:1s:1", "realtime:1s:1s", "realtime:-1s:1s:1", "monotonic:1s:1us:1", "boottime:0s:0s:1"} {
		if s, err := Parse(bad, time.ParseDuration); err == nil {
			t.Errorf("%q: %v", bad, s)
		}
	}
}

func TestDelayed(t *testing.T) {
	if s, err := Delayed(0); s != nil || err != nil {
		t.Errorf("no delay: %v, %v", s, err)
	}
	if s, err := Delayed(3 * time.Second); err != nil || s.Setting() != "boottime:3000000000:0:1" {
		t.Errorf("%v, %v", s, err)
	}
	if _, err := Delayed(-1); err == nil {
		t.Error("a negative delay is accepted")
	}
}
