package target

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
)

// Addr is an address in the target.
type Addr uint64

// Map is one line of /proc/PID/maps (proc_pid_maps(5)).
type Map struct {
	Start, End Addr
	Perms      string // "r-xp"
	Offset     uint64
	Dev        string // "fe:01"
	Inode      uint64
	Path       string // as the kernel prints it, " (deleted)" cut off
	Deleted    bool
}

// Contains reports whether a lies in the mapping.
func (m Map) Contains(a Addr) bool { return a >= m.Start && a < m.End }

// Anonymous reports whether the mapping has neither a file nor a name.
func (m Map) Anonymous() bool { return m.Inode == 0 && m.Path == "" }

const (
	mapsMax      = 1 << 18  // lines: vm.max_map_count is 65,530 by default
	mapsLineMax  = 32 << 10 // a path is at most 4 KiB, or four times that escaped
	mapsBytesMax = 64 << 20 // of paths, not counting a path equal to the previous one
	deletedMark  = " (deleted)"
)

// parseMaps reads a maps file. The target controls the file names in it, so parseMaps
// limits the length and the number of lines.
func parseMaps(r io.Reader) ([]Map, error) {
	var maps []Map
	var last Map
	pathBytes := 0
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 4<<10), mapsLineMax)
	for sc.Scan() {
		m, err := parseMap(sc.Text())
		if err != nil {
			return nil, fmt.Errorf("maps: line %d: %w", len(maps)+1, err)
		}
		if m.Path != last.Path {
			pathBytes += len(m.Path)
		}
		if len(maps) == mapsMax || pathBytes > mapsBytesMax {
			return nil, fmt.Errorf("maps: more than %d lines or %d bytes of names: %w", mapsMax, mapsBytesMax, ErrMalformed)
		}
		last = m.compact(last)
		maps = append(maps, last)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("maps: %w", err)
	}
	return maps, nil
}

// compact returns a copy of m that does not reference the line it was parsed from.
// Strings equal to those of the previous mapping share its memory.
func (m Map) compact(last Map) Map {
	share := func(s, last string) string {
		if s == last {
			return last
		}
		return strings.Clone(s)
	}
	m.Perms, m.Dev, m.Path = share(m.Perms, last.Perms), share(m.Dev, last.Dev), share(m.Path, last.Path)
	return m
}

func parseMap(line string) (Map, error) {
	var m Map
	span, rest, _ := strings.Cut(line, " ")
	perms, rest, _ := strings.Cut(rest, " ")
	offset, rest, _ := strings.Cut(rest, " ")
	dev, rest, _ := strings.Cut(rest, " ")
	inode, path, _ := strings.Cut(rest, " ")
	lo, hi, ok := strings.Cut(span, "-")
	start, err1 := strconv.ParseUint(lo, 16, 64)
	end, err2 := strconv.ParseUint(hi, 16, 64)
	if !ok || err1 != nil || err2 != nil || start >= end || len(perms) != 4 {
		return m, ErrMalformed
	}
	m.Start, m.End, m.Perms, m.Dev = Addr(start), Addr(end), perms, dev
	if m.Offset, err1 = strconv.ParseUint(offset, 16, 64); err1 != nil {
		return m, ErrMalformed
	}
	if m.Inode, err1 = strconv.ParseUint(inode, 10, 64); err1 != nil {
		return m, ErrMalformed
	}
	m.Path = strings.TrimLeft(path, " ")
	if m.Path, m.Deleted = strings.CutSuffix(m.Path, deletedMark); m.Deleted && m.Inode == 0 {
		// A name such as [anon: x (deleted)]: nothing was deleted.
		m.Path, m.Deleted = m.Path+deletedMark, false
	}
	return m, nil
}

// Maps reads the target's mappings through a live thread: the maps file of a leader
// that has ended is empty.
func (t *Target) Maps() ([]Map, error) {
	maps, err := t.mapsOfLive()
	if errors.Is(err, ErrGone) && t.switchThread() {
		return t.mapsOfLive()
	}
	return maps, err
}

func (t *Target) mapsOfLive() ([]Map, error) {
	f, err := os.Open(t.taskPath("maps"))
	if err != nil {
		return nil, t.explain("read the maps", err)
	}
	defer f.Close()
	wait := t.BeginRead(Memory)
	defer EndRead(wait)
	maps, err := parseMaps(io.LimitReader(f, math.MaxInt32))
	if err != nil {
		return nil, fmt.Errorf("pid %d: %w", t.PID, err)
	}
	if len(maps) == 0 {
		return nil, t.left()
	}
	return maps, nil
}

// FindMap returns the mapping that contains a. maps are in ascending order,
// as the kernel prints them.
func FindMap(maps []Map, a Addr) (Map, bool) {
	i := sort.Search(len(maps), func(i int) bool { return maps[i].End > a })
	if i < len(maps) && maps[i].Contains(a) {
		return maps[i], true
	}
	return Map{}, false
}
