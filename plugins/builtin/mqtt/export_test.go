package mqtt

import (
	"github.com/eclipse/paho.golang/paho"

	"github.com/conduit-agent/conduit/plugins/record"
)

// RecordOf returns the record of a message.
func RecordOf(p *paho.Publish) record.Record { return recordOf(p) }
