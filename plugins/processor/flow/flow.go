// Package flow has the processors that decide which records pass, how many and when: clone, dedupe, error, filter,
// sample, split, throttle.
package flow

import (
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Plugins returns the processors of this package.
func Plugins() []sdk.ProcessorPlugin {
	plugins := []sdk.ProcessorPlugin{
		plugin("clone", "Makes copies of a record.",
			"The record continues together with its copies. Each has a number in the metadata clone.index; 0 is the "+
				"record itself.",
			func() sdk.Processor { return &clone{} }),
		plugin("dedupe", "Drops records that were seen before.", "Records are compared by the fields of the key. Keys "+
			"are remembered within a window, across restarts too. A key is kept on disk only once its record will "+
			"not be read again: all destinations and the dead-letter queue have the record on disk, and the position "+
			"behind it is saved. Therefore neither a crash nor a failing disk loses a record. After a crash the last "+
			"keys may be lost, and a duplicate passes once more. A record without any of the fields passes.",
			func() sdk.Processor { return &dedupe{} }),
		plugin("error", "Refuses every record.",
			"The record goes to the dead-letter queue. With a condition it turns records that must not be into errors.",
			func() sdk.Processor { return &refuse{} }),
		plugin("filter", "Drops every record.",
			"The record counts as handled. Use it with a condition that selects the records to drop.",
			func() sdk.Processor { return filter{} }),
		plugin("sample", "Keeps a part of the records.",
			"One of so many, or a share. With a key, records with equal keys have the same fate.",
			func() sdk.Processor { return &sample{} }),
		plugin("split", "Makes one record of each item of a list.",
			"The field is replaced by the item, and the metadata split.index has its number from 0. A record with an "+
				"empty list is dropped.",
			func() sdk.Processor { return &split{} }),
		plugin("throttle", "Slows records down to a rate.", "Faster records wait, in order, and are not acknowledged "+
			"until they have passed; a source that stays faster is held back. A crash or a stop loses no record: "+
			"waiting records are read again. Records are dropped only if the settings say so.",
			func() sdk.Processor { return &throttle{} }),
	}
	for i := range plugins {
		switch p := &plugins[i]; p.Name {
		case "dedupe", "throttle":
			p.Stateful = true
		case "error", "filter":
			p.Defaults = map[string]string{
				"sdk.schema.decode.key.enabled": "false", "sdk.schema.decode.payload.enabled": "false",
				"sdk.schema.encode.key.enabled": "false", "sdk.schema.encode.payload.enabled": "false",
			}
		}
	}
	return plugins
}

func plugin(name, summary, description string, instance func() sdk.Processor) sdk.ProcessorPlugin {
	return sdk.ProcessorPlugin{
		Name: name, Summary: summary, Description: description, Version: "v0.1.0", Author: "conduit",
		New: instance,
	}
}
