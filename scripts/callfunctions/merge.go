package main

import (
	"fmt"
	"log"
	"maps"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
)

// merge adds what a newer release has.
func merge(all, newer *function.Facts) error {
	rows := make(map[string]int)
	for i := range all.Functions {
		rows[all.Functions[i].Name] = i
	}
	for _, f := range newer.Functions {
		i, known := rows[f.Name]
		if !known {
			all.Functions = append(all.Functions, f)
			continue
		}
		if !samePlaces(&all.Functions[i], &f) {
			return fmt.Errorf("%s: arguments have other places than in an older release", f.Name)
		}
		all.Functions[i] = f
	}
	for tag, e := range newer.Enums {
		all.Enums[tag] = mergeEnum(tag, all.Enums[tag], e)
	}
	maps.Copy(all.Structs, newer.Structs)
	return nil
}

func samePlaces(a, b *function.Function) bool {
	return a.Variadic == b.Variadic && slices.EqualFunc(a.Parameters, b.Parameters, func(p, q function.Parameter) bool {
		return p.Place == q.Place
	})
}

// mergeEnum keeps the older release's values that the newer one lacks, unless the name has got another value.
func mergeEnum(tag string, older, newer function.Enum) function.Enum {
	values := make(map[string]uint32)
	for v, name := range newer {
		values[name] = v
	}
	for v, name := range older {
		now, moved := values[name]
		switch {
		case moved && now != v:
			log.Printf("%s: %s was %d, is %d", tag, name, v, now)
		case newer[v] == "":
			newer[v] = name
		case newer[v] != name:
			log.Printf("%s: %d was %s, is %s", tag, v, name, newer[v])
		}
	}
	return newer
}

// leaveOutDeprecated removes the names that share a slot of HSA's table with a newer name.
func leaveOutDeprecated(f *function.Facts) {
	names := make(map[string]bool)
	for _, fn := range f.Functions {
		names[fn.Name] = true
	}
	f.Functions = slices.DeleteFunc(f.Functions, func(fn function.Function) bool {
		newer, deprecated := function.NewerName(fn.Name)
		return deprecated && names[newer]
	})
}
