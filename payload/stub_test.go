package payload_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// Stubs as newer runtimes have them: functions with a bool among the arguments on
// the stack, which the compiler extends before it loads the table's address.
const stackStubs = `
#include <stdbool.h>
struct table {
	void *before[64];
	int (*plain)(void);
	int (*one)(long, long, long, long, long, long, long, int, bool);
	int (*two)(long, long, long, long, long, long, unsigned short, bool);
};
static struct table here;
static struct table *table = &here;
void set(struct table *t) { table = t; }
int plain(void) { return table->plain(); }
int one(long a, long b, long c, long d, long e, long f, long g, int h, bool i) { return table->one(a, b, c, d, e, f, g, h, i); }
int two(long a, long b, long c, long d, long e, long f, unsigned short g, bool h) { return table->two(a, b, c, d, e, f, g, h); }
`

func TestStubsWithArgumentsOnTheStack(t *testing.T) {
	dump := filepath.Join(buildDir(), "payload-test", "slots_dump")
	if _, err := os.Stat(dump); err != nil {
		testenv.Skip(t, "not built (run: make test-payload): "+err.Error())
	}
	dir := t.TempDir()
	source, library := filepath.Join(dir, "stubs.c"), filepath.Join(dir, "stubs.so")
	if err := os.WriteFile(source, []byte(stackStubs), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-O2", "-fPIC", "-shared", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(dump, library)
	cmd.Stdin = strings.NewReader("plain\none\ntwo\n")
	slots := slotsFrom(t, cmd)
	if len(slots) != 3 || slots["one"] != slots["plain"]+8 || slots["two"] != slots["plain"]+16 {
		t.Errorf("slots %v", slots)
	}
}
