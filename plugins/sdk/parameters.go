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
	// Literal refuses a value with "{{", because the text would become part of a name. Template allows a template and
	// refuses one that cannot be parsed. The connector protocol has neither, so they are false for connectors that run
	// as executables.
	Literal, Template bool
}

// ParameterType is the type of a setting's text. The numbers are defined by the connector protocol
// (config.v1.Parameter.Type).
type ParameterType int32

// The parameter types. Some plugins also send 0, which means any text.
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
	Value string // operand of the rule; empty for ValidationRequired
}

// ValidationType is the kind of a rule. The numbers are defined by the connector protocol (config.v1.Validation.Type).
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
