package target

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rtl-attach/rtl-attach/internal/privilege"
)

func TestParseMap(t *testing.T) {
	for _, tc := range []struct {
		line string
		want Map
		bad  bool
	}{
		{line: "7f00-8000 rw-p 00000000 00:00 0 ", want: Map{Start: 0x7f00, End: 0x8000, Perms: "rw-p", Dev: "00:00"}},
		{
			line: "1000-2000 r-xp 00001000 fe:01 42                         /usr/lib/with space.so",
			want: Map{Start: 0x1000, End: 0x2000, Perms: "r-xp", Offset: 0x1000, Dev: "fe:01", Inode: 42, Path: "/usr/lib/with space.so"},
		},
		{
			line: "1000-2000 rw-s 00000000 00:01 7 /memfd:rtl-control (deleted)",
			want: Map{Start: 0x1000, End: 0x2000, Perms: "rw-s", Dev: "00:01", Inode: 7, Path: "/memfd:rtl-control", Deleted: true},
		},
		{
			line: "1000-2000 rw-p 00000000 00:00 0 [anon:x (deleted)]",
			want: Map{Start: 0x1000, End: 0x2000, Perms: "rw-p", Dev: "00:00", Path: "[anon:x (deleted)]"},
		},
		{
			line: "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]",
			want: Map{Start: 0xffffffffff600000, End: 0xffffffffff601000, Perms: "--xp", Dev: "00:00", Path: "[vsyscall]"},
		},
		{line: "", bad: true},
		{line: "2000-1000 rw-p 0 00:00 0", bad: true},
		{line: "1000 rw-p 0 00:00 0", bad: true},
		{line: "1000-2000 rw 0 00:00 0", bad: true},
		{line: "1000-2000 rw-p x 00:00 0", bad: true},
		{line: "1000-2000 rw-p 0 00:00 -1", bad: true},
		{line: "1000-20000000000000000 rw-p 0 00:00 0", bad: true},
	} {
		got, err := parseMap(tc.line)
		if tc.bad != (err != nil) || (!tc.bad && got != tc.want) {
			t.Errorf("%q: %+v, %v; want %+v, bad %v", tc.line, got, err, tc.want, tc.bad)
		}
	}
}

func FuzzMaps(f *testing.F) {
	own, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(own))
	f.Add("1000-2000 rw-s 0 00:01 7 /memfd:rtl-control (deleted)\n")
	f.Fuzz(func(t *testing.T, s string) {
		maps, err := parseMaps(strings.NewReader(s))
		if err != nil {
			return
		}
		for _, m := range maps {
			if m.Start >= m.End || len(m.Perms) != 4 {
				t.Fatalf("%+v", m)
			}
		}
		findMemfd(maps, "rtl-control")
	})
}

func TestParseStat(t *testing.T) {
	const tail = " S 1 2 3 4 5 4194560 6 7 8 9 10 11 12 13 14 15 16 17 987654 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 17 3 36\n"
	s, err := parseStat([]byte("42 (a) b (c)" + tail))
	if err != nil || s.Comm != "a) b (c" || s.State != 'S' || s.PPID != 1 || s.StartTicks != 987654 || s.CPU != 17 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{"", "42 (x", "42 (x) S 1", "42 (x) S one" + tail[4:]} {
		if _, err := parseStat([]byte(bad)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: error %v", bad, err)
		}
	}
}

func TestParseStatus(t *testing.T) {
	s := parseStatus([]byte("Name:\tx: y\nTracerPid:\t99\nUid:\t1\t1000\t3\t4\nNSpid:\t500\t7\n" +
		"SigPnd:\t0000000000000200\nSeccomp:\t2\nSeccomp_filters:\t3\nx86_Thread_features:\tshstk wrss\n"))
	if s.TracerPID != 99 || s.UID != 1000 || len(s.NSPID) != 2 || s.NSPID[1] != 7 || s.Pending != 0x200 ||
		s.Seccomp != 2 || s.SeccompFilters != 3 || len(s.ThreadFeatures) != 2 {
		t.Errorf("%+v", s)
	}
}

func TestParseUser(t *testing.T) {
	const ids = "Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t4294967294\n"
	for text, want := range map[string]privilege.User{
		ids + "Groups:\t \n":      {UID: 4, GID: 4294967294},
		ids + "Groups:\t8 900 \n": {UID: 4, GID: 4294967294, Groups: []int{8, 900}},
	} {
		if u, err := parseUser([]byte(text)); err != nil || !reflect.DeepEqual(u, want) {
			t.Errorf("%q: %+v, %v", text, u, err)
		}
	}
	for _, bad := range []string{"", "Uid:\t1\t2\t3\t4\n", ids + "Groups:\t-1\n", "Uid:\t1\t2\t3\nGid:\t1\t2\t3\t4\n"} {
		if u, err := parseUser([]byte(bad)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %+v, %v", bad, u, err)
		}
	}
}

func TestParseSyscall(t *testing.T) {
	for _, tc := range []struct {
		text string
		want Syscall
		bad  bool
	}{
		{text: "running\n", want: Syscall{Running: true, Number: -1}},
		{text: "-1 0x7ffc00 0x7f00\n", want: Syscall{Number: -1, SP: 0x7ffc00, PC: 0x7f00}},
		{
			text: "202 0x1 0x189 0x0 0x0 0x0 0xffffffff 0x7ffc00 0x7f00\n",
			want: Syscall{Number: 202, Args: [6]uint64{1, 0x189, 0, 0, 0, 0xffffffff}, SP: 0x7ffc00, PC: 0x7f00},
		},
		{text: "", bad: true},
		{text: "202 0x1", bad: true},
		{text: "x 0x1 0x189 0x0 0x0 0x0 0x0 0x7ffc00 0x7f00", bad: true},
		{text: "202 y 0x189 0x0 0x0 0x0 0x0 0x7ffc00 0x7f00", bad: true},
	} {
		got, err := parseSyscall(tc.text)
		if tc.bad != (err != nil) || (!tc.bad && got != tc.want) {
			t.Errorf("%q: %+v, %v", tc.text, got, err)
		}
	}
}

func TestLoaderNames(t *testing.T) {
	tg := &Target{PID: 1}
	for path, want := range map[string]error{
		"/lib/ld-musl-x86_64.so.1": ErrMusl,
		"/usr/bin/program":         ErrStatic,
	} {
		if _, err := tg.loader([]Map{{Start: 0x1000, End: 0x2000, Perms: "r--p", Inode: 1, Path: path}}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

func TestMachineName(t *testing.T) {
	for _, tc := range []struct {
		class   elf.Class
		machine elf.Machine
		want    string
	}{
		{elf.ELFCLASS64, elf.EM_X86_64, "x86-64"},
		{elf.ELFCLASS32, elf.EM_X86_64, "x32"},
		{elf.ELFCLASS32, elf.EM_386, "i386"},
		{elf.ELFCLASS64, elf.EM_AARCH64, "AARCH64"},
	} {
		if got := machineName(tc.class, tc.machine); got != tc.want {
			t.Errorf("%v %v: %q, want %q", tc.class, tc.machine, got, tc.want)
		}
	}
}

// limited is memory that holds a few bytes.
type limited struct{ b []byte }

func (m limited) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(m.b)) {
		return 0, io.EOF
	}
	n := copy(p, m.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func FuzzELF(f *testing.F) {
	if b, err := os.ReadFile("/proc/self/exe"); err == nil {
		f.Add(b[:min(len(b), 8192)])
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _, _ = fileSymbol(limited{b}, "dlopen")
		im, err := OpenImage(limited{b}, 0)
		if err != nil {
			return
		}
		_, _, _ = im.Symbol("dlopen")
		_, _ = cString(limited{b}, im.Base, 64)
	})
}

// TestMountType: what stands between an entry's number and its type is the target's.
func TestMountType(t *testing.T) {
	const mounts = `21 1 8:1 / / rw,noatime shared:1 - ext4 /dev/root rw
22 21 0:20 / /proc rw - proc proc rw
23 21 0:21 /\040-\040proc\040x /mnt\040-\040proc rw shared:2 master:1 - fuse.sshfs - rw
24 21 0:22 / /broken rw
`
	for id, want := range map[string]string{"21": "ext4", "22": "proc", "23": "fuse.sshfs", "24": "", "2": "", "": "", "25": ""} {
		if kind, err := mountType(strings.NewReader(mounts), id); kind != want || err != nil {
			t.Errorf("mount %s: %q, %v, want %q", id, kind, err, want)
		}
	}
	if _, err := mountType(strings.NewReader("7 "+strings.Repeat("x", 1<<20)), "7"); err == nil {
		t.Error("a line without end was read")
	}
}

// FuzzProc: what the target can write into its files in /proc (its name, its
// groups) is not taken for something else.
func FuzzProc(f *testing.F) {
	for _, name := range []string{"stat", "status", "syscall", "auxv", "limits", "cgroup", "mountinfo"} {
		if b, err := os.ReadFile("/proc/self/" + name); err == nil {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseStat(b); err == nil && (!bytes.Contains(b, []byte(s.Comm)) || s.State == 0) {
			t.Fatalf("%+v", s)
		}
		parseStatus(b)
		if c, err := parseSyscall(string(b)); err == nil && c.Running && c.Number != -1 {
			t.Fatalf("%+v", c)
		}
		programHeaders(b)
		softLimit(b, "Max processes")
		if kind, err := mountType(bytes.NewReader(b), "25"); err == nil && strings.ContainsAny(kind, " \n") {
			t.Fatalf("%q", kind)
		}
		if mount, group := pidsGroup(string(b)); group != "" {
			spareThreads(fstest.MapFS{}, group)
			if !strings.HasPrefix(mount, "/sys/fs/cgroup") {
				t.Fatal(mount)
			}
		}
	})
}

// FuzzLinkMap: the loader's list is in the target's memory.
func FuzzLinkMap(f *testing.F) {
	list := make([]byte, 256)
	put := func(at int, v uint64) { binary.LittleEndian.PutUint64(list[at:], v) }
	put(8, 64)    // r_map
	put(64+8, 48) // l_name
	put(64+24, 128)
	put(128+8, 48)
	f.Add(bytes.Clone(list))
	put(128+24, 64) // a loop
	f.Add(list)
	f.Fuzz(func(t *testing.T, b []byte) {
		objects, err := linkMap(limited{b}, 0)
		if err == nil && len(objects) > modulesMax {
			t.Fatalf("%d objects", len(objects))
		}
	})
}

// A changing memory is read as the loader leaves it after each read.
type changing struct {
	limited
	after func(offset int64)
}

func (c changing) ReadAt(b []byte, offset int64) (int, error) {
	n, err := c.limited.ReadAt(b, offset)
	c.after(offset)
	return n, err
}

// TestLinkMapChanges: a list that is changed under the walk is none, wherever that led.
func TestLinkMapChanges(t *testing.T) {
	for name, next := range map[string]uint64{"to the end": 0, "astray": 1 << 40} {
		list := make([]byte, pageBytes)
		put := func(at int, v uint64) { binary.LittleEndian.PutUint64(list[at:], v) }
		put(8, 64)       // r_map
		put(64+8, 48)    // l_name
		put(64+24, next) // l_next
		if _, err := linkMap(limited{list}, 0); (err == nil) != (next == 0) || errors.Is(err, ErrLoading) {
			t.Errorf("%s: %v", name, err)
		}
		begun := changing{limited{list}, func(offset int64) {
			if offset == 64 {
				put(debugState, 1) // RT_ADD
			}
		}}
		if _, err := linkMap(begun, 0); !errors.Is(err, ErrLoading) {
			t.Errorf("%s, while a load begins: %v", name, err)
		}
	}
}
