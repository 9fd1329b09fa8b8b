// callfunctions makes internal/kind/calls/function/functions.txt from the public headers of HIP, HSA and RCCL.
// It is run by hand, with the folders that have hip/, hsa/ and rccl/ of the releases, the oldest first:
//
//	go run ./scripts/callfunctions -o internal/kind/calls/function/functions.txt /usr/include NEWER/usr/include
//	go generate ./internal/kind/calls/...
//
// What the file has already is kept: a name stays in the table when a release no longer has it. The newest
// signature wins, but the arguments' places must be the same in all releases: the payload does not know
// which one it is in. It needs clang (CLANG, or clang++-15).
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
)

func main() {
	log.SetFlags(0)
	out := flag.String("o", "", "file to merge with and to write")
	flag.Parse()
	if err := run(*out, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func run(out string, includes []string) error {
	all, err := known(out)
	if err != nil {
		return err
	}
	for _, include := range includes {
		of, err := release(include)
		if err != nil {
			return fmt.Errorf("%s: %w", include, err)
		}
		if err := merge(all, of); err != nil {
			return fmt.Errorf("%s: %w", include, err)
		}
	}
	leaveOutDeprecated(all)
	log.Printf("%d functions", len(all.Functions))
	return os.WriteFile(out, all.Format(), 0o644)
}

func known(file string) (*function.Facts, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return function.Parse(string(text))
}

// release returns what the headers of one release say.
func release(include string) (*function.Facts, error) {
	all := &function.Facts{Enums: make(map[string]function.Enum), Structs: make(map[string]function.Struct)}
	for _, s := range []source{hip, hsa, rccl} {
		h, err := newHeaders(include, s)
		if err != nil {
			return nil, err
		}
		of, err := h.facts()
		h.close()
		if err != nil {
			return nil, err
		}
		if err := merge(all, of); err != nil {
			return nil, err
		}
	}
	return all, nil
}
