package cpusample

import (
	"testing"
	"time"
)

func TestSample(t *testing.T) {
	for text, want := range map[string]Options{
		"cpu:99":                        {CPU: Clock{HZ: 99}},
		"wall:1":                        {Wall: Clock{HZ: 1}},
		"cpu:99,delay=1s":               {CPU: Clock{HZ: 99, Delay: time.Second}},
		"cpu:5000,duration=2m,delay=1s": {CPU: Clock{HZ: 5000, Delay: time.Second, Duration: 2 * time.Minute}},
	} {
		var o Options
		if err := o.Sample(text, time.ParseDuration); err != nil || o != want || !o.Any() {
			t.Errorf("%s: %+v, %v", text, o, err)
		}
	}
	for _, text := range []string{"", "cpu", "cpu:", "gpu:99", "cpu:0", "cpu:5001", "cpu:-1", "cpu:9x", "cpu:9,", "cpu:9,delay", "cpu:9,delay=0s", "cpu:9,delay=-1s", "cpu:9,x=1s"} {
		var o Options
		if err := o.Sample(text, time.ParseDuration); err == nil && text != "cpu:9," || o.Any() && text != "cpu:9," {
			t.Errorf("%q: %+v", text, o)
		}
	}
	o := Options{CPU: Clock{HZ: 1}}
	if err := o.Sample("cpu:9", time.ParseDuration); err == nil {
		t.Error("one clock twice")
	}
}

func TestSpan(t *testing.T) {
	for _, c := range []struct {
		clock       Clock
		from, until uint64
	}{
		{Clock{}, 0, 0},
		{Clock{HZ: 9}, 100, ^uint64(0)},
		{Clock{HZ: 9, Delay: 5, Duration: 7}, 105, 112},
	} {
		if from, until := c.clock.span(100); from != c.from || until != c.until {
			t.Errorf("%+v: %d to %d", c.clock, from, until)
		}
	}
}

func TestParseCPUs(t *testing.T) {
	for text, want := range map[string]int{"0": 1, "0-3": 4, "0-3,5,7-8": 7, "": -1, "3-1": -1, "x": -1, "0-9999999": -1, "-1": -1} {
		cpus, err := parseCPUs(text)
		if (err != nil) != (want < 0) || err == nil && len(cpus) != want {
			t.Errorf("%q: %v, %v", text, cpus, err)
		}
	}
}
