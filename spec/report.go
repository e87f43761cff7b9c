package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/spec/yamldoc"
)

// Codes of problems. They are stable: programs may branch on them.
const (
	CodeParse         = "config.parse_error"
	CodeRequired      = "config.field_required"
	CodeInvalid       = "config.field_invalid"
	CodeUnknown       = "config.field_unknown"
	CodeTooLong       = "config.field_too_long"
	CodeRenamed       = "config.field_renamed"
	CodeTooNew        = "config.field_too_new" // the field requires a newer version than the file's
	CodeDuplicateID   = "config.id_duplicate"
	CodeDuplicateKey  = "config.key_duplicate"
	CodeVersion       = "config.version_unsupported"
	CodeReference     = "config.reference_invalid"
	CodeReferenceLost = "config.reference_unresolved"
	CodeSecretLiteral = "config.secret_literal"
	CodeOwnedByAPI    = "pipeline.owned_by_api"
	CodeSameID        = "connector.duplicate_id" // same qualified id as in another pipeline
	CodeDeclaredTwice = "pipeline.duplicate_id"  // declared by several files

	CodeProcessorNotFound = "processor.plugin_not_found"
)

// report collects the problems of a document. places is nil when it has no text.
type report struct {
	kinds    ReferenceKinds // of references that are no problems
	places   map[string]yamldoc.Place
	problems []Problem
}

// add reports a problem of the value at the pointer path.
func (r *report) add(path string, severity Severity, code, format string, args ...any) {
	r.addAt(r.find(path).Value, path, severity, code, fmt.Sprintf(format, args...))
}

// addName reports a problem of the name of the field at the pointer path.
func (r *report) addName(path string, severity Severity, code, format string, args ...any) {
	r.addAt(r.find(path).Key, path, severity, code, fmt.Sprintf(format, args...))
}

func (r *report) addAt(m yamldoc.Mark, path string, severity Severity, code, message string) {
	r.problems = append(r.problems, Problem{
		Line: m.Line, Column: m.Column, Path: path, Severity: severity, Code: code, Message: message,
	})
}

// find returns the place of path, or of the nearest value around it.
func (r *report) find(path string) yamldoc.Place {
	for {
		if p, ok := r.places[path]; ok || path == "" {
			return p
		}
		path = path[:max(strings.LastIndexByte(path, '/'), 0)]
	}
}

// failed reports whether the value at the pointer path, or a value below it, has an error.
func (r *report) failed(path string) bool {
	return slices.ContainsFunc(r.problems, func(p Problem) bool {
		return p.Severity == SeverityError && within(p.Path, path)
	})
}

// within reports whether the pointer path is at, or is below it.
func within(path, at string) bool {
	return path == at || strings.HasPrefix(path, at+"/")
}
