package export

import (
	"encoding/json"

	"github.com/rtl-attach/rtl-attach/internal/report"
)

// The file format of speedscope (https://www.speedscope.app/file-format-schema.json): one profile for each
// GPU and thread, whose samples are stacks of frames' indexes, the outermost first.
type (
	speedscopeFile struct {
		Schema   string               `json:"$schema"`
		Exporter string               `json:"exporter"`
		Name     string               `json:"name"`
		Shared   speedscopeShared     `json:"shared"`
		Profiles []*speedscopeProfile `json:"profiles"`
	}
	speedscopeShared struct {
		Frames []speedscopeFrame `json:"frames"`
	}
	speedscopeFrame struct {
		Name string `json:"name"`
		File string `json:"file,omitempty"`
		Line int64  `json:"line,omitempty"`
	}
	speedscopeProfile struct {
		Type       string  `json:"type"`
		Name       string  `json:"name"`
		Unit       string  `json:"unit"`
		StartValue int64   `json:"startValue"`
		EndValue   int64   `json:"endValue"`
		Samples    [][]int `json:"samples"`
		Weights    []int64 `json:"weights"`
	}
)

// speedscope is a file in the making.
type speedscope struct {
	file   speedscopeFile
	frames map[idleFrame]int
	byName map[string]*speedscopeProfile
}

func writeSpeedscope(e *export) error {
	all, err := e.idleStacks()
	if err != nil {
		return err
	}
	s := &speedscope{
		file: speedscopeFile{
			Schema: "https://www.speedscope.app/file-format-schema.json", Exporter: "rtl-attach", Name: "idle time of GPUs by cause",
			Shared: speedscopeShared{[]speedscopeFrame{}}, Profiles: []*speedscopeProfile{},
		},
		frames: map[idleFrame]int{}, byName: map[string]*speedscopeProfile{},
	}
	for i := range all {
		s.add(&all[i])
	}
	return json.NewEncoder(e.w).Encode(s.file)
}

func (s *speedscope) add(one *report.IdleStack) {
	name := gpuName(one.GPU)
	if title := threadTitle(one.Thread); title != "" {
		name += ", waiting for " + title
	} else {
		name += ", other causes"
	}
	p := s.byName[name]
	if p == nil {
		p = &speedscopeProfile{Type: "sampled", Name: name, Unit: "nanoseconds", Samples: [][]int{}, Weights: []int64{}}
		s.byName[name] = p
		s.file.Profiles = append(s.file.Profiles, p)
	}
	stack := make([]int, 0, len(one.Frames)+2)
	if one.Cut {
		stack = append(stack, s.frame(unknownRoot))
	}
	for i := len(one.Frames) - 1; i >= 0; i-- {
		stack = append(stack, s.frame(frameOf(one.Frames[i])))
	}
	p.Samples = append(p.Samples, append(stack, s.frame(leafOf(one))))
	p.Weights = append(p.Weights, one.NS)
	p.EndValue += one.NS
}

func (s *speedscope) frame(f idleFrame) int {
	at, known := s.frames[f]
	if !known {
		at = len(s.file.Shared.Frames)
		s.frames[f] = at
		s.file.Shared.Frames = append(s.file.Shared.Frames, speedscopeFrame{f.name, f.file, f.line})
	}
	return at
}
