//go:build rtlman

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rtl-attach/rtl-attach/internal/failure"
)

// This file is in the build for `make man` only, which is never installed. With
// RTL_MAN=FOLDER the tool writes one manual page per command to FOLDER and exits.
// SOURCE_DATE_EPOCH is their date.
func init() {
	dir := os.Getenv("RTL_MAN")
	if dir == "" {
		return
	}
	if err := writePages(dir); err != nil {
		fmt.Fprintln(os.Stderr, "rtl-attach: error:", err)
		os.Exit(int(failure.Failed))
	}
	os.Exit(int(failure.OK))
}

func writePages(dir string) error {
	code := failure.OK
	root := newRoot(&code)
	date, err := dateOfBuild()
	if err != nil {
		return err
	}
	pages := []*cobra.Command{root}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			pages = append(pages, c)
		}
	}
	for _, c := range pages {
		m, known := manuals[c.Name()]
		if !known {
			return fmt.Errorf("manual.go has nothing on the command %s", c.Name())
		}
		file := filepath.Join(dir, pageName(c)+".1")
		if err := os.WriteFile(file, []byte(page(c, m, pages, date)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// dateOfBuild returns the date of SOURCE_DATE_EPOCH, so that two builds have the same
// pages, or today.
func dateOfBuild() (string, error) {
	at := time.Now()
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return "", fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		at = time.Unix(seconds, 0)
	}
	return at.UTC().Format(time.DateOnly), nil
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// page returns the manual page of a command.
func page(c *cobra.Command, m manual, pages []*cobra.Command, date string) string {
	var r roff
	r.request("TH", strings.ToUpper(pageName(c)), "1", date, "rtl-attach "+version, "rtl-attach")
	r.section("NAME", pageName(c)+" - "+c.Short)
	r.heading("SYNOPSIS")
	r.bold(c.UseLine())
	r.section("DESCRIPTION", description(c))
	r.heading("OPTIONS")
	r.options(c)
	r.section("EXIT STATUS", m.exit)
	r.section("ENVIRONMENT", m.environment)
	r.section("FILES", m.files)
	r.heading("EXAMPLES")
	r.verbatim(c.Example)
	r.heading("SEE ALSO")
	var others []string
	for _, other := range pages {
		if other != c {
			others = append(others, pageName(other)+"(1)")
		}
	}
	r.paragraph(strings.Join(others, ", "))
	return r.String()
}

func description(c *cobra.Command) string {
	switch {
	case !c.HasParent():
		return purpose
	case c.Long != "":
		return c.Long
	}
	return strings.ToUpper(c.Short[:1]) + c.Short[1:] + "."
}
