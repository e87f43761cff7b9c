package parse

import "github.com/conduit-agent/conduit/plugins/texttype"

// typed is the setting for the types of values.
type typed struct {
	// Comma list of name:type, with * for all other names. The types are string, int, float, bool, time (RFC 3339, or
	// Unix nanoseconds) and auto, which makes numbers of JSON's numbers and booleans of true and false. Without a type
	// a value is a string. An empty text is null, unless it is a string.
	Types []string `json:"types"`
}

// compileTypes reads the setting. names are the names that it may have; nil: all.
func (t *typed) compileTypes(names []string) (texttype.Types, error) {
	return texttype.Parse("types", t.Types, names)
}
