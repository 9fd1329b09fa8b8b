// Command simlogcat prints the simulated GPU's truth logs, a line per record.
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/rtl-attach/rtl-attach/test/simlog"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	code := 0
	for _, path := range os.Args[1:] {
		for rec, err := range simlog.All(path) {
			if err != nil {
				fmt.Fprintf(os.Stderr, "simlogcat: %s: %v\n", path, err)
				code = 1
				break
			}
			fmt.Fprintln(out, rec)
		}
	}
	out.Flush()
	os.Exit(code)
}
