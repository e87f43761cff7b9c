package sdk

// Parameters are the settings a connector understands, by name. A '*' in a name
// stands for any text without a dot: collections.*.format.type.
type Parameters map[string]Parameter

// Parameter describes one setting.
type Parameter struct {
	Default     string
	Description string
	Type        ParameterType
	Validations []Validation
	// Literal says that the text stands for itself: a value with "{{" is refused, because it would be a part of a name.
	// Template says that the text may be a template: one that cannot be parsed is refused. The connector protocol has
	// neither, so that they are false for connectors that run as executables.
	Literal, Template bool
}

// ParameterType says how a setting's text is read. The numbers are those of the
// connector protocol (config.v1.Parameter.Type).
type ParameterType int32

// The parameter types. Plugins in the wild also send 0: any text.
const (
	TypeString   ParameterType = 1
	TypeInt      ParameterType = 2
	TypeFloat    ParameterType = 3
	TypeBool     ParameterType = 4
	TypeFile     ParameterType = 5
	TypeDuration ParameterType = 6
)

// Validation is one rule that a setting must meet.
type Validation struct {
	Type  ValidationType
	Value string // what the rule compares with; empty for ValidationRequired
}

// ValidationType says what a Validation demands. The numbers are those of the
// connector protocol (config.v1.Validation.Type).
type ValidationType int32

// The validation types.
const (
	ValidationRequired    ValidationType = 1 // not empty
	ValidationGreaterThan ValidationType = 2 // number above Value
	ValidationLessThan    ValidationType = 3 // number below Value
	ValidationInclusion   ValidationType = 4 // one of the comma-separated Value
	ValidationExclusion   ValidationType = 5 // none of the comma-separated Value
	ValidationRegex       ValidationType = 6 // matches the RE2 expression Value
)
