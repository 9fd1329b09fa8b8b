package release

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPackage: the dpkg of each Debian release installs the .deb in an empty
// root, where the tool then runs, and purges it: nothing is left of it.
func TestPackage(t *testing.T) {
	for _, name := range []string{"bullseye", "trixie"} {
		t.Run(name, func(t *testing.T) {
			r, target, deb := find(t, name), t.TempDir(), one(t, "*.deb")
			for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"} {
				if err := os.MkdirAll(filepath.Join(target, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(target, "var/lib/dpkg/status"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			before := filesBelow(t, target, "var/lib/dpkg")
			// dpkg writes its log beside its data: --log keeps it out of the comparison.
			dpkg := []string{"dpkg", "--root=/mnt", "--log=/dev/null"}
			r.run(t, target, filepath.Dir(deb), append(dpkg, "--install", "/srv/"+filepath.Base(deb))...)
			if printed := r.run(t, target, target, "/mnt/usr/bin/rtl-attach", "version"); !strings.Contains(printed, version(t)) {
				t.Errorf("version prints %q", printed)
			}
			if printed := r.run(t, target, target, append(dpkg, "--verify", "rtl-attach")...); printed != "" {
				t.Errorf("installed otherwise than packed:\n%s", printed)
			}
			if installed := filesBelow(t, target, "var/lib/dpkg"); !slices.Contains(installed, "usr/share/man/man1/rtl-attach.1.gz") {
				t.Errorf("no manual among\n%q", installed)
			}
			r.run(t, target, target, append(dpkg, "--purge", "rtl-attach")...)
			if after := filesBelow(t, target, "var/lib/dpkg"); !slices.Equal(after, before) {
				t.Errorf("after the purge\n%q, before\n%q", after, before)
			}
		})
	}
}
