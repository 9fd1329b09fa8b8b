package whyidle

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Frame is a place in code.
type Frame struct {
	Kind int64  // cputrace.Native, Python, Kernel
	Name string // "": not known
	File string // the source file if Line is known, else the ELF file
	Line int64  // 0: not known
	// Object is the ELF file of native code; "": it is File, or not known.
	Object string
}

// mostFrames limits the frames of a stack; mostHeld the stacks and frames in memory.
const (
	mostFrames = 512
	mostHeld   = 1 << 16
)

// Stacks reads the stacks of a trace when they are asked for.
type Stacks struct {
	nodes, frames *sql.Stmt
	node          map[int64]stackNode
	frame         map[int64]Frame
	gil           map[int64]bool
}

type stackNode struct {
	parent, frame int64 // 0: none
	cut           bool
}

// OpenStacks prepares to read the stacks of a trace that has them. The caller must close them.
func OpenStacks(tr *traceread.Trace) (*Stacks, error) {
	s := &Stacks{node: map[int64]stackNode{}, frame: map[int64]Frame{}, gil: map[int64]bool{}}
	var err error
	s.nodes, err = tr.DB.Prepare("SELECT coalesce(parent_id, 0), frame_id, cut <> 0 FROM rtl_cpu_stack WHERE id = ?")
	if err != nil {
		return nil, err
	}
	s.frames, err = tr.DB.Prepare(fmt.Sprintf(`SELECT f.kind, coalesce(substr(n.string, 1, %[1]d), ''), coalesce(substr(p.string, 1, %[1]d), ''),
		coalesce(f.line, 0), coalesce(substr(o.string, 1, %[1]d), '') FROM rtl_cpu_frame f LEFT JOIN rocpd_string n ON n.id = f.name_id
		LEFT JOIN rocpd_string p ON p.id = f.file_id LEFT JOIN rocpd_string o ON o.id = f.object_id WHERE f.id = ?`, traceread.LongestName))
	if err != nil {
		return nil, errors.Join(err, s.nodes.Close())
	}
	return s, nil
}

// Close closes the statements.
func (s *Stacks) Close() { _ = errors.Join(s.nodes.Close(), s.frames.Close()) } // the file was only read

// Of returns the frames of a stack, the innermost first, and whether what has called the last one is not
// known. A stack that the trace does not have has no frames.
func (s *Stacks) Of(id int64) (all []Frame, cut bool, err error) {
	for id != 0 {
		n, err := s.nodeOf(id)
		if err != nil {
			return nil, false, err
		}
		if n.frame == 0 {
			return all, true, nil
		}
		f, err := s.frameOf(n.frame)
		if err != nil {
			return nil, false, err
		}
		if all = append(all, f); len(all) == mostFrames || n.parent >= id {
			return all, n.parent != 0, nil
		}
		id, cut = n.parent, n.cut
	}
	return all, cut, nil
}

func (s *Stacks) nodeOf(id int64) (n stackNode, err error) {
	n, known := s.node[id]
	if known {
		return n, nil
	}
	if err := absent(s.nodes.QueryRow(id).Scan(&n.parent, &n.frame, &n.cut)); err != nil {
		return n, err
	}
	if len(s.node) >= mostHeld {
		clear(s.node)
	}
	s.node[id] = n
	return n, nil
}

func (s *Stacks) frameOf(id int64) (f Frame, err error) {
	f, known := s.frame[id]
	if known {
		return f, nil
	}
	if err := absent(s.frames.QueryRow(id).Scan(&f.Kind, &f.Name, &f.File, &f.Line, &f.Object)); err != nil {
		return f, err
	}
	f.Name, f.File, f.Line = traceread.Cut(f.Name, longestFunction), traceread.Cut(f.File, longestFunction), max(0, f.Line)
	f.Object = traceread.Cut(f.Object, longestFunction)
	if len(s.frame) >= mostHeld {
		clear(s.frame)
	}
	s.frame[id] = f
	return f, nil
}

// longestFunction limits the name of a function or file, in bytes.
const longestFunction = 4 << 10

func absent(err error) error {
	switch {
	case err == nil, errors.Is(err, sql.ErrNoRows):
		return nil
	}
	return fmt.Errorf("%w: %w", traceread.ErrImpossible, err)
}

// waitsForGIL reports whether a stack waits for Python's global interpreter lock.
func (s *Stacks) waitsForGIL(id int64) (bool, error) {
	is, known := s.gil[id]
	if known {
		return is, nil
	}
	frames, _, err := s.Of(id)
	if err != nil {
		return false, err
	}
	is = waitsForGIL(frames)
	if len(s.gil) >= mostHeld {
		clear(s.gil)
	}
	s.gil[id] = is
	return is, nil
}
