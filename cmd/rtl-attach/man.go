//go:build rtlman

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"

	"github.com/rtl-attach/rtl-attach/internal/session"
)

// A build for `make man`, never installed: RTL_MAN=FOLDER writes the manual's
// pages there, one for each command, and ends. Their date is SOURCE_DATE_EPOCH.
func init() {
	dir := os.Getenv("RTL_MAN")
	if dir == "" {
		return
	}
	code := session.OK
	root := newRoot(&code)
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Title: "RTL-ATTACH", Section: "1", Source: "rtl-attach", Manual: "rtl-attach"}
	if err := doc.GenManTree(root, header, dir); err != nil {
		fmt.Fprintln(os.Stderr, "rtl-attach: error:", err)
		os.Exit(int(session.Failed))
	}
	os.Exit(int(session.OK))
}
