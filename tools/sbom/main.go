// Command sbom writes the CycloneDX bill of materials of a built tool to
// standard output: the Go modules that the binary itself lists, and the C
// libraries that are linked into it.
//
//	sbom -version 0.1.0 -link pkg:generic/sqlite@3.53.4 BINARY
//
// The same input gives the same bytes: the time is SOURCE_DATE_EPOCH.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/rs/zerolog"
)

func main() {
	var linked []string
	version := flag.String("version", "", "of the tool")
	flag.Func("link", "package URL of a C library in the binary; may be repeated", func(purl string) error {
		linked = append(linked, purl)
		return nil
	})
	flag.Parse()
	err := write(os.Stdout, flag.Arg(0), *version, os.Getenv("SOURCE_DATE_EPOCH"), linked)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// write encodes the bill of materials of a binary; epoch is in seconds since 1970.
func write(w io.Writer, binary, version, epoch string, linked []string) error {
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	generator, err := bin.NewGenerator(binary, bin.WithIncludeStdlib(true),
		bin.WithVersionOverride("v"+version), bin.WithLogger(zerolog.Nop()))
	if err != nil {
		return err
	}
	bom, err := generator.Generate()
	if err != nil {
		return err
	}
	bom.Metadata.Timestamp = time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	for _, purl := range linked {
		if err := link(bom, purl); err != nil {
			return err
		}
	}
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// link adds a library to the components, and to what the tool depends on.
func link(bom *cdx.BOM, purl string) error {
	path, version, ok := strings.Cut(purl, "@")
	if !ok {
		return errors.New(purl + ": no version")
	}
	version, _, _ = strings.Cut(version, "?")
	*bom.Components = append(*bom.Components, cdx.Component{
		BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: path[strings.LastIndex(path, "/")+1:],
		Version: version, Scope: cdx.ScopeRequired, PackageURL: purl,
	})
	*bom.Dependencies = append(*bom.Dependencies, cdx.Dependency{Ref: purl})
	for i := range *bom.Dependencies {
		d := &(*bom.Dependencies)[i]
		if d.Ref == bom.Metadata.Component.BOMRef {
			direct := append(*d.Dependencies, purl)
			d.Dependencies = &direct
			return nil
		}
	}
	return errors.New("the tool is not among the dependencies")
}
