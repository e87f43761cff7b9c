// Package wire implements the connector protocol: the messages, the environment of a plugin, and Serve, which turns an
// sdk.Connector into an executable. Package standalone is the host's side.
//
// Records are transmitted in their encoded form; neither side decodes a batch that it only passes on.
package wire

import plugin "github.com/hashicorp/go-plugin"

// Handshake is the handshake configuration of hosts and plugins.
var Handshake = plugin.HandshakeConfig{
	MagicCookieKey:   "CONDUIT_PLUGIN_MAGIC_COOKIE",
	MagicCookieValue: "204e8e812c3a1bb73b838928c575b42a105dd2e9aa449be481bc4590486df53f",
}

// The versions of the connector protocol. The first sends one record per message.
const (
	Version1 = 1
	Version2 = 2
)

// The environment variables that a host sets for a connector.
const (
	EnvSchemaTarget = "CONDUIT_CONNECTOR_UTILITIES_GRPC_TARGET"
	EnvToken        = "CONDUIT_CONNECTOR_TOKEN"
	EnvConnectorID  = "CONDUIT_CONNECTOR_ID"
	EnvLogLevel     = "CONDUIT_CONNECTOR_LOG_LEVEL"
	EnvMaxMessage   = "CONDUIT_CONNECTOR_MAX_RECEIVE_RECORD_SIZE"
)

// TokenKey is the metadata key of the token with which a connector calls the schema service.
const TokenKey = "conduit-connector-token"

// DefaultMaxMessage is the maximum size in bytes of a message that every plugin accepts.
const DefaultMaxMessage = 4 << 20
