// Package javascript is the processor custom.javascript, which passes every record to a function of a script.
package javascript

import "github.com/conduit-agent/conduit/plugins/sdk"

// Plugins returns the processors of this package.
func Plugins() []sdk.ProcessorPlugin { return []sdk.ProcessorPlugin{Plugin()} }

// Plugin describes custom.javascript.
func Plugin() sdk.ProcessorPlugin {
	return sdk.ProcessorPlugin{
		Name:    "custom.javascript",
		Summary: "Run a JavaScript function for every record.",
		Description: "The script defines a function process, which gets a record and returns the result: that " +
			"record or another one made with new Record(), an array of records, or null for none. A record has " +
			"Position, Operation, Metadata, Key, Payload.Before and Payload.After. Structured data is an object " +
			"that may be changed in place; raw data is a list of bytes, which RawData(text) makes, and text() reads " +
			"as UTF-8. TextDecoder and TextEncoder read and write other encodings. A whole number beyond 2^53 is a " +
			"BigInt. Another number that JavaScript would change is an object: it keeps its digits wherever it is " +
			"put, in JSON.stringify and in String(), and is rounded when it is computed with. There are console and " +
			"logger, but no files, network or timers. Global variables live as long as the script runs, each worker " +
			"has its own. An error refuses the record, which stays as it came, and names the line and column. In a " +
			"pipeline file, write $$ for $.",
		Version: "v0.1.0",
		Author:  "conduit",
		New:     newProcessor,
	}
}
