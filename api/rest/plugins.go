package rest

// Plugin describes a connector plugin.
type Plugin struct {
	// Full name, with kind and version.
	Name        string `json:"name"`
	Summary     string `json:"summary"`
	Description string `json:"description"`
	Version     string `json:"version"`
	Author      string `json:"author"`
	// Empty when the plugin has no destination.
	DestinationParams map[string]Parameter `json:"destinationParams"`
	// Empty when the plugin has no source.
	SourceParams map[string]Parameter `json:"sourceParams"`
}

// ProcessorPlugin describes a processor plugin.
type ProcessorPlugin struct {
	// Full name, with kind and version.
	Name        string               `json:"name"`
	Summary     string               `json:"summary"`
	Description string               `json:"description"`
	Version     string               `json:"version"`
	Author      string               `json:"author"`
	Parameters  map[string]Parameter `json:"parameters"`
}

// Parameter describes a setting.
type Parameter struct {
	Default     string `json:"default"`
	Description string `json:"description"`
	// TYPE_STRING, TYPE_INT, TYPE_FLOAT, TYPE_BOOL, TYPE_FILE or TYPE_DURATION.
	Type        string          `json:"type"`
	Validations []ParameterRule `json:"validations"`
}

// ParameterRule is a rule that a setting must meet.
type ParameterRule struct {
	// TYPE_REQUIRED, TYPE_GREATER_THAN, TYPE_LESS_THAN, TYPE_INCLUSION, TYPE_EXCLUSION or TYPE_REGEX.
	Type  string `json:"type"`
	Value string `json:"value"`
}
