package python

import "github.com/rtl-attach/rtl-attach/internal/target"

// ReadMaps makes the interpreter read the process's mappings by maps from now on: for a recording, which has dropped the
// privileges to open them again.
func (p *Interpreter) ReadMaps(maps func() ([]target.Map, error)) { p.memory.maps = maps }
