package harness

import (
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// RCCLRanks is the workload rcclranks, with RCCL itself: RTL_RUNTIME names a release whose root has it (make rccl).
func RCCLRanks(t testing.TB, ranks int, args ...string) Workload {
	t.Helper()
	r := given(t)
	switch {
	case r == nil:
		testenv.Skip(t, "no RCCL: it is in the root of another release (run: make rccl)")
	case r.Version(t, "librccl1") == "":
		testenv.Skip(t, "no RCCL in the root of Debian "+r.Suite+" (run: make rccl)")
	case !r.Has("rcclranks"):
		testenv.Skip(t, "rcclranks was not built for Debian "+r.Suite+" (run: make rccl)")
	}
	version, n := r.Version(t, "librccl1"), strconv.Itoa(ranks)
	t.Logf("Debian %s, RCCL %s", r.Suite, version)
	w := Workload{
		Program: "rcclranks", Args: append([]string{"--ranks", n}, args...), Runtime: r, LogsCalls: true,
		Sim: []string{"SOFTGPU_GPUS=" + n, "NCCL_SOCKET_IFNAME=lo", "NCCL_IB_DISABLE=1", "NCCL_DEBUG=WARN"},
	}
	if !strings.HasPrefix(version, "5.") { // it exports its buffers to other processes, which the simulator's driver cannot
		w.Sim = append(w.Sim, "NCCL_P2P_DISABLE=1")
	}
	return w
}

// OfKind returns the trace with one kind of call.
func (tr *APITrace) OfKind(kind string) *APITrace {
	one := *tr
	one.Calls = slices.DeleteFunc(slices.Clone(tr.Calls), func(c APIRecord) bool { return c.Kind != kind })
	one.Accounts = map[string]KindAccount{kind: tr.Accounts[kind]}
	return &one
}

// RCCLKernel is a kernel of RCCL in a trace.
type RCCLKernel struct {
	Name     string
	Function string   // the call of RCCL that submitted it; "": none
	Members  []string // of an ncclGroupEnd: the calls of the group, in order
	Rank     string   // the thread's name
}

// ReadRCCLKernels reads RCCL's kernels, and returns how many other kernels a call of RCCL is said to have
// submitted. A kernel that was submitted before the first recorded call had begun, or after the last one of its thread, is left out.
func ReadRCCLKernels(t testing.TB, path string) (kernels []RCCLKernel, others int) {
	t.Helper()
	db, err := tracedb.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	members := map[int64][]string{}
	err = each(db, `SELECT g.group_id, c.function FROM rccl_group_call g JOIN call c ON c.id = g.call_id ORDER BY c.start_ns, c.id`, func(r *sql.Rows) error {
		var group int64
		var function string
		err := r.Scan(&group, &function)
		members[group] = append(members[group], function)
		return err
	})
	err = errors.Join(err, each(db, `WITH rccl AS (SELECT x.kernel_id AS kernel_id, c.id AS id, c.function AS function FROM call_kernel x
			JOIN call c ON c.id = x.call_id WHERE c.api = 'rccl-api'),
		span AS (SELECT thread, min(start_ns) AS first_ns, max(start_ns) AS last_ns FROM call WHERE api = 'rccl-api' GROUP BY thread)
		SELECT k.name, coalesce(k.thread_name, ''), coalesce(r.id, 0), coalesce(r.function, '') FROM kernel k JOIN span s ON s.thread = k.thread
		LEFT JOIN rccl r ON r.kernel_id = k.id WHERE k.submit_ns >= s.first_ns AND k.submit_ns <= s.last_ns ORDER BY k.submit_ns`, func(r *sql.Rows) error {
		var k RCCLKernel
		var call int64
		err := r.Scan(&k.Name, &k.Rank, &call, &k.Function)
		k.Members = members[call]
		switch {
		case strings.HasPrefix(k.Name, "nccl"):
			kernels = append(kernels, k)
		case call != 0:
			others++
		}
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	return kernels, others
}
