// Package collectives knows the names of the kernels of collective operations: kernels of several GPUs that wait for
// each other.
package collectives

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// Builtin are the patterns of known libraries. docs/guide/ranks.md lists them.
var Builtin = []string{
	`\b(nccl|rccl)(Dev)?(Kernel|Func)\w*`,        // RCCL
	`\bcross_device_reduce_\w+`,                  // the custom all-reduce of vLLM, SGLang and aiter
	`\breduce_scatter_cross_device_store\w*`,     // aiter, the first part of a fused all-reduce
	`\ballreduce_fusion_kernel_\w+`,              // aiter, fused with a norm
	`\ballreduce_prototype_(one|two)shot\w*`,     // quick reduce of vLLM, SGLang and aiter
	`\b(one|two)_?shot_all_?reduce\w*`,           // symmetric memory of PyTorch, and Triton kernels named like it
	`\bmscclpp?\w*(All|all)_?(Reduce|reduce)\w*`, // MSCCL, MSCCL++
}

// Limits of a file of patterns.
const (
	mostPatterns = 256
	mostBytes    = 64 << 10
)

// ErrPatterns means that a file has no usable patterns.
var ErrPatterns = errors.New("not a list of regular expressions")

// Patterns are regular expressions; a kernel is a collective if one of them matches a part of its name.
type Patterns struct{ all []*regexp.Regexp }

// Default returns the patterns of known libraries.
func Default() *Patterns {
	p := &Patterns{}
	for _, text := range Builtin {
		p.all = append(p.all, regexp.MustCompile(text))
	}
	return p
}

// Open reads the patterns of a file, which are then used instead of Builtin.
func Open(path string) (*Patterns, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := Parse(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// Parse reads a list of patterns: one in each line. Empty lines, and lines that begin with #, are comments. It returns
// ErrPatterns if there is none, if there are too many, or if one is no regular expression of Go's (RE2).
func Parse(r io.Reader) (*Patterns, error) {
	p := &Patterns{}
	limited := &io.LimitedReader{R: r, N: mostBytes + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, mostBytes+1)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		one, err := regexp.Compile(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w: %w", n, ErrPatterns, err)
		}
		if p.all = append(p.all, one); len(p.all) > mostPatterns {
			return nil, fmt.Errorf("over %d lines: %w", mostPatterns, ErrPatterns)
		}
	}
	switch {
	case limited.N == 0:
		return nil, fmt.Errorf("over %d bytes: %w", mostBytes, ErrPatterns)
	case lines.Err() != nil:
		return nil, lines.Err()
	case len(p.all) == 0:
		return nil, fmt.Errorf("no pattern in it: %w", ErrPatterns)
	}
	return p, nil
}

// Find returns the part of a kernel's name that a pattern matches; "": none does.
func (p *Patterns) Find(name string) string {
	for _, one := range p.all {
		if found := one.FindString(name); found != "" {
			return found
		}
	}
	return ""
}

// Match reports whether a kernel is a collective.
func (p *Patterns) Match(name string) bool { return p.Find(name) != "" }
