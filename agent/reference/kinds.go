package reference

import "github.com/conduit-agent/conduit/spec"

// Kinds returns the kinds of references, which every binary contains.
func Kinds() spec.ReferenceKinds { return spec.ReferenceKinds{Env(), File(), Credential()} }
