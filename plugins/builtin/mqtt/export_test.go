package mqtt

import (
	"context"

	"github.com/eclipse/paho.golang/paho"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// RecordOf returns the record of a message.
func RecordOf(p *paho.Publish) record.Record { return recordOf(p) }

// ClientID returns the name of a client with this setting of clientId.
func ClientID(setting string, env *sdk.Env) string {
	s := serverSettings{ClientID: setting}
	return s.id(sdk.WithEnv(context.Background(), env))
}
