package spec

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// EnvReference is the name of the kind of $VAR, ${VAR}, ${VAR:-default} and ${VAR:?message}.
const EnvReference = "env"

// ReferenceKind declares a kind of references. References of all kinds but EnvReference have the form ${name:argument}.
type ReferenceKind struct {
	Name        string // lower-case letters, digits and _
	Syntax      string // an example, such as ${file:/path}
	Description string // of the value
	// Check returns the fault in an argument, or nil. A nil Check accepts every argument.
	Check func(argument string) error
	// Early says that Read does not block and that the value is known when a file is read: such references may also be
	// in ids, names, descriptions, types and statuses.
	Early bool
	// Allowed, if set, returns the reason why a pipeline may not refer to argument. It is called before Read.
	Allowed func(argument string, access ReferenceAccess) error
	// Read returns the value. Lookups cut one newline at its end. ErrUnset says that a variable is not set.
	Read func(ctx context.Context, argument string, access ReferenceAccess) (string, error)
	// File, if set, returns the file that holds the value. When its content changes, the agent applies the pipelines
	// again that use the value.
	File func(argument string) string
	// Retry says that a failed Read may succeed later without a change of the pipeline or a restart of the agent.
	Retry bool
}

// ReferenceAccess restricts the files and credentials to which references may lead. Each function returns the reason
// for a refusal; nil allows all.
type ReferenceAccess struct {
	File       func(path string) error
	Credential func(name string) error
}

// ErrUnset is returned by the Read of EnvReference for variables that are not set.
var ErrUnset = errors.New("not set")

// ReferenceKinds are the kinds of references that a binary contains. Nil stands for any kinds: only the syntax of
// references is then checked.
type ReferenceKinds []ReferenceKind

// find returns the kind with this name, or nil.
func (kinds ReferenceKinds) find(name string) *ReferenceKind {
	for i := range kinds {
		if kinds[i].Name == name {
			return &kinds[i]
		}
	}
	return nil
}

// fault describes what is wrong with the kind or the argument of r, whose text is source; "" if nothing is.
func (kinds ReferenceKinds) fault(r Reference, source string) string {
	if kinds == nil {
		return ""
	}
	kind := kinds.find(r.Kind)
	if kind == nil {
		return fmt.Sprintf("%s is a reference of the unknown kind %q: %s", source, r.Kind, kinds.advice())
	}
	if kind.Check != nil {
		if err := kind.Check(r.Argument); err != nil {
			return fmt.Sprintf("%s is not a reference: %v; %s", source, err, kinds.advice())
		}
	}
	return ""
}

// advice says which references exist.
func (kinds ReferenceKinds) advice() string {
	return "write " + kinds.String() + ", or $${ for a literal ${"
}

// String lists the syntax of the references, for people.
func (kinds ReferenceKinds) String() string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.Syntax)
	}
	if len(all) == 0 {
		all = []string{"${VAR}", "${VAR:-default}", "${VAR:?message}", "${kind:argument}"}
	}
	list := strings.Join(all[:len(all)-1], ", ")
	if list != "" {
		list += " or "
	}
	return list + all[len(all)-1]
}
