package spec

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/conduit-agent/conduit/spec/yamldoc"
)

// File is the content of a pipeline file, with its problems.
type File struct {
	Pipelines []Parsed
	Problems  []Problem // by line and column
	// Invalid lists, sorted, the ids of pipelines that the file declares with errors. No such pipeline is in Pipelines,
	// and none was withdrawn.
	Invalid []string
	// Broken reports that a part of the file could not be read as pipelines with an id. A pipeline that is in neither
	// Pipelines nor Invalid may be in that part, and was not withdrawn.
	Broken bool
}

// Parsed is a pipeline of a file without errors, normalized.
type Parsed struct {
	Pipeline Pipeline
	Line     int    // where it starts
	Places   Places // places of the values
}

// maxProblems is the maximum number of problems reported for a file; readers need no more.
const maxProblems = 100

// ParseFile reads the pipeline file data, of versions 2.0 to 2.2. Its documents are independent: an invalid document
// leaves the others valid. path names the file in problems. ParseFile never panics and opens nothing.
//
// A Redacted setting is an error: a file is a complete declaration, so it cannot keep a secret that it does not
// contain.
func ParseFile(path string, data []byte) File { return Parser{}.File(path, data) }

// Parser reads and checks pipelines. The zero Parser accepts references of any kind in settings and plugin names.
type Parser struct {
	// References are the kinds of references that pipelines may contain; others are errors. The values of Early kinds
	// also replace references in ids, names, descriptions, types and statuses: there they are needed to know the
	// declarations of a file. They replace them after the YAML is read, so that a value cannot change the structure of
	// the document.
	References ReferenceKinds
}

// File is ParseFile with the references of p.
func (p Parser) File(path string, data []byte) File { return parseFile(path, data, false, p.early()) }

// Export is File for an export, which is compared with the existing declaration: settings may be Redacted, and only
// settings and plugin names may contain references.
func (p Parser) Export(data []byte) File {
	lookup := p.early()
	lookup.Read = func(kind *ReferenceKind, argument string) (string, error) {
		r := Reference{Kind: kind.Name, Argument: argument}
		return "", fmt.Errorf("%s cannot be used here", r.title())
	}
	return parseFile("", data, true, lookup)
}

func (p Parser) early() Lookup { return Lookup{Kinds: p.References, Early: true} }

// ParseExport is Export with references of any kind.
func ParseExport(data []byte) File { return Parser{}.Export(data) }

func parseFile(path string, data []byte, export bool, lookup Lookup) File {
	var f File
	f.read(data, export, lookup)
	f.Problems = finish(path, f.Problems)
	addExcerpts(data, f.Problems)
	return f
}

// read reads every document of data. Settings of an export may be Redacted.
func (f *File) read(data []byte, export bool, lookup Lookup) {
	docs, faults := yamldoc.Read(data, grammar)
	var all []declared
	for i := range docs {
		d := readDocument(&docs[i], export, lookup)
		f.Problems = append(f.Problems, d.problems...)
		f.Broken = f.Broken || d.broken
		all = append(all, d.declared...)
	}
	f.Problems = append(f.Problems, problemsOf(faults)...)
	f.Broken = f.Broken || len(faults) > 0
	if len(docs) == 0 && len(faults) == 0 {
		f.Broken = true
		f.Problems = append(f.Problems, Problem{Line: 1, Severity: SeverityError, Code: CodeParse,
			Message: "the file is empty: to declare that it has no pipelines, write \"pipelines: []\""})
	}
	f.accept(all)
}

// typed are the fields with whole numbers or bools; all other scalars are text.
var typed = []string{"workers", "window-size", "window-nack-threshold", "default", "keep-original", "bytes"}

// grammar defines the meaning of scalars in a pipeline file.
var grammar = yamldoc.Grammar{
	Typed: func(at string) bool {
		return !inSettings(at) && !strings.Contains(at, "/labels/") && slices.Contains(typed, lastToken(at))
	},
	Text: inSettings,
}

// inSettings reports whether at is the pointer of a setting, or below one.
func inSettings(at string) bool { return strings.Contains(at, "/settings/") }

func lastToken(at string) string { return at[strings.LastIndexByte(at, '/')+1:] }

var faultCodes = map[yamldoc.Kind]string{
	yamldoc.Unreadable: CodeParse, yamldoc.DuplicateKey: CodeDuplicateKey, yamldoc.Invalid: CodeInvalid,
}

func problemsOf(faults []yamldoc.Fault) []Problem {
	var all []Problem
	for _, f := range faults {
		all = append(all, Problem{Line: f.Line, Column: f.Column, Path: f.Path, Severity: SeverityError,
			Code: faultCodes[f.Kind], Message: f.Message})
	}
	return all
}

// accept adds the pipelines without errors whose id is declared once.
func (f *File) accept(all []declared) {
	byID := map[string][]declared{}
	for _, d := range all {
		byID[d.parsed.Pipeline.ID] = append(byID[d.parsed.Pipeline.ID], d)
	}
	for _, d := range all {
		id := d.parsed.Pipeline.ID
		same := byID[id]
		if len(same) > 1 {
			f.Problems = append(f.Problems, duplicatePipeline(d, same))
		}
		if len(same) > 1 || !d.valid {
			f.Invalid = append(f.Invalid, id)
			continue
		}
		f.Pipelines = append(f.Pipelines, d.parsed)
	}
	slices.Sort(f.Invalid)
	f.Invalid = slices.Compact(f.Invalid)
}

func duplicatePipeline(d declared, same []declared) Problem {
	first, again := same[0].parsed.Line, same[1].parsed.Line
	return Problem{
		Line: d.id.Line, Column: d.id.Column, Path: d.path + "/id", Pipeline: d.parsed.Pipeline.ID,
		Severity: SeverityError, Code: CodeDuplicateID,
		Message: fmt.Sprintf("pipeline %q is declared %s, at lines %d and %d: remove all but one or give them ids of "+
			"their own",
			d.parsed.Pipeline.ID, times(len(same)), first, again),
	}
}

func times(n int) string {
	if n == 2 {
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// finish sets the file of all problems, limits their number, keeping errors first, and orders them.
func finish(path string, all []Problem) []Problem {
	if extra := len(all) - maxProblems; extra > 0 {
		sort.SliceStable(all, func(i, j int) bool { return all[i].Severity < all[j].Severity })
		all = append(all[:maxProblems:maxProblems], Problem{Line: all[maxProblems-1].Line, Severity: all[0].Severity,
			Code: CodeParse, Message: fmt.Sprintf("and %d more problems", extra)})
	}
	for i := range all {
		all[i].File = path
	}
	sort.SliceStable(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path)) < 0
	})
	return all
}
