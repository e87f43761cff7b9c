package sqlsink

// Object exports object.
var Object = object

// TypeOf exports typeOf.
var TypeOf = typeOf

// DeclaredType exports declaredType.
var DeclaredType = declaredType

// With exports with.
func (t Type) With(u Type) Type { return t.with(u) }

// Observed exports observed.
func (t Type) Observed(u Type) Type { return t.observed(u) }
