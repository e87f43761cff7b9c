// Package javascript is the processor custom.javascript, which hands every record to a
// function of a script.
package javascript

import "github.com/conduit-agent/conduit/plugins/sdk"

// Plugin describes custom.javascript.
func Plugin() sdk.ProcessorPlugin {
	return sdk.ProcessorPlugin{
		Name:        "custom.javascript",
		Summary:     "Run a JavaScript function for every record.",
		Description: "Calls the function process of a script with every record. What it returns goes on: the record, changed or not, another one, several in an array, or null for none.",
		Version:     "v0.1.0",
		Author:      "conduit",
		New:         newProcessor,
	}
}
