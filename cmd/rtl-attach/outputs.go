package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rtl-attach/rtl-attach/internal/export"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/session"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// outputFlags are rocprofv3's flags for its files.
type outputFlags struct {
	file, directory, format string
}

func (f *outputFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "output-file", "", "as --output, for rocprofv3's `NAME`: the trace is NAME.db, exports begin with NAME")
	flags.StringVar(&f.directory, "output-directory", "", "put the files into `FOLDER`, which is made if it does not exist")
	flags.StringVarP(&f.format, "output-format", "f", "", "also export the trace, in rocprofv3's `FORMATS`: csv, json, pftrace")
	takesSeveralWords(flags.Lookup("output-format"))
}

// rocprofPlaceholders are rocprofv3's words for our placeholders.
var rocprofPlaceholders = strings.NewReplacer("%pid%", "%p", "%hostname%", "%h")

// template returns the template of the trace's path. output is the value of --output.
func (f *outputFlags) template(output string) string {
	if f.file != "" {
		output = strings.TrimSuffix(rocprofPlaceholders.Replace(f.file), ".db") + ".db"
	}
	if f.directory != "" && !filepath.IsAbs(output) {
		output = filepath.Join(rocprofPlaceholders.Replace(f.directory), output)
	}
	return output
}

// check refuses names that contradict each other, and formats that there are not.
func (f *outputFlags) check(known *pflag.FlagSet) error {
	if f.file != "" && known.Changed("output") {
		return errors.New("--output or --output-file, not both")
	}
	_, err := f.exports(nil)
	return err
}

// rocprofFormats are the formats of this tool with rocprofv3's names for them.
var rocprofFormats = map[string]string{"csv": "csv", "json": "rocprofv3", "pftrace": "pftrace"}

// exports returns the formats to export. kinds are the recorded kinds: in CSV each has a file of its own.
func (f *outputFlags) exports(kinds []*kind.Kind) (formats []export.Format, err error) {
	for _, word := range strings.FieldsFunc(strings.ToLower(f.format), func(r rune) bool { return r == ',' || r == ' ' }) {
		names := []string{rocprofFormats[word]}
		switch word {
		case "csv":
			for _, k := range kinds {
				if k.Export.CSV != nil {
					names = append(names, k.Export.CSV.Format)
				}
			}
		case "rocpd", "otf2":
			return nil, instead{fmt.Errorf("--output-format %s: this format of rocprofv3's cannot be written", word), "pftrace, json or csv; the trace itself is an SQLite file, too"}
		}
		for _, name := range names {
			format, known := export.FormatNamed(name)
			if !known {
				return nil, fmt.Errorf("--output-format %q: csv, json or pftrace", word)
			}
			if !slices.ContainsFunc(formats, func(f export.Format) bool { return f.Name == format.Name }) {
				formats = append(formats, format)
			}
		}
	}
	return formats, nil
}

// madeFolders are the folders that this tool has made, the outermost first.
type madeFolders []string

// remove removes them, unless there is something in them.
func (m madeFolders) remove() {
	for _, folder := range slices.Backward(m) {
		_ = os.Remove(folder)
	}
}

// makeFolder makes the folder of --output-directory and of --output-file, and those above it. It belongs to the user
// behind sudo. Names with placeholders are not made.
func (f *outputFlags) makeFolder() (made madeFolders, err error) {
	if f.directory == "" && f.file == "" {
		return nil, nil
	}
	folder := filepath.Dir(f.template(preflight.DefaultOutput))
	if strings.Contains(folder, "%") {
		return nil, nil
	}
	var missing []string
	for at := folder; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, os.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		missing = append(missing, at)
	}
	for _, one := range slices.Backward(missing) {
		if err := tracedb.MakeFolder(one); err != nil {
			made.remove()
			return nil, err
		}
		made = append(made, one)
	}
	return made, nil
}

// export writes the exports of --output-format beside the trace, and returns the exit code.
func (f recordFlags) export(ended context.Context, ui *ui, outcome session.Outcome, kinds []*kind.Kind) failure.ExitCode {
	formats, _ := f.outputs.exports(kinds)                                 // checked before
	e := exportFlags{force: f.force || f.append, quiet: f.quiet || f.json} // the exports of a trace that is extended are replaced
	for _, format := range formats {
		e.output = ""
		if format.Name == "pftrace" {
			e.output = strings.TrimSuffix(outcome.Path, ".db") + "_results" + format.Suffix
		}
		err := unlessEnded(ended, func() error {
			jobs, err := e.jobs(ended, format, []string{outcome.Path})
			if err == nil {
				err = e.writeAll(ended, format, jobs)
			}
			if err == nil {
				_, err = e.print(format, jobs)
			}
			return err
		})
		switch {
		case errors.Is(err, context.Canceled):
			ui.say("rtl-attach: the export was interrupted; the trace is saved: rtl-attach export %s", outcome.Path)
			return outcome.Code
		case err != nil:
			var explained *failure.Error
			if !errors.As(err, &explained) {
				explained = failure.ExportFailed(outcome.Path, format.DefaultOutput(outcome.Path, 0), err)
			}
			explained.Target = leftAs(outcome.Code) + "; the trace is saved"
			ui.Failed(explained)
			return cmp.Or(outcome.Code, failure.Failed)
		}
	}
	return outcome.Code
}
