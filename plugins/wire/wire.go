// Package wire speaks the connector protocol: Serve makes an sdk.Connector an
// executable of its own, Client starts such executables and drives them.
//
// Records cross it in their encoded form; neither side decodes a batch that it only
// passes on.
//
// go-plugin's Client starts the executables, shakes hands, dials, reads their output and
// ends them, over a runner of this package. Five facts about go-plugin (v1.8.0) decide
// what is not left to it:
//
//   - It neither gives a plugin a process group nor a parent-death signal, and it waits for
//     the end of output that a grandchild may hold open for ever: so the runner.
//   - It panics on a certificate that it did not ask for, and puts a first line of any
//     length into an error: so the runner passes on five fields of a bounded line.
//   - Its reader of log lines panics when @message, @level or @timestamp is no string, and
//     rounds integers: so its logger is off and the lines go to ours.
//   - It asks a plugin to exit without a deadline, and waits two seconds for one that does
//     not know the request: so an interceptor.
//   - Its broker remembers whatever a plugin announces: so the stream is never opened.
package wire

import (
	"time"

	plugin "github.com/hashicorp/go-plugin"
)

// What host and plugin agree on before they talk.
var handshake = plugin.HandshakeConfig{
	MagicCookieKey:   "CONDUIT_PLUGIN_MAGIC_COOKIE",
	MagicCookieValue: "204e8e812c3a1bb73b838928c575b42a105dd2e9aa449be481bc4590486df53f",
}

// The versions of the connector protocol. The first sends one record per message.
const (
	version1 = 1
	version2 = 2
)

// The environment variables that a host sets for a connector.
const (
	envSchemaTarget = "CONDUIT_CONNECTOR_UTILITIES_GRPC_TARGET"
	envToken        = "CONDUIT_CONNECTOR_TOKEN"
	envConnectorID  = "CONDUIT_CONNECTOR_ID"
	envLogLevel     = "CONDUIT_CONNECTOR_LOG_LEVEL"
	envMaxMessage   = "CONDUIT_CONNECTOR_MAX_RECEIVE_RECORD_SIZE"
)

// tokenKey is where a connector puts its token when it calls the schema service.
const tokenKey = "conduit-connector-token"

// defaultMaxMessage is the size of a message that every plugin accepts.
const defaultMaxMessage = 4 << 20

// defaultMaxReceive bounds a message of a plugin: batches of large records fit, a plugin
// gone mad cannot take all memory at once.
const defaultMaxReceive = 256 << 20

// How long a plugin may take, unless the Client says otherwise.
const (
	defaultStartTimeout = time.Minute
	defaultCallTimeout  = time.Minute
	teardownTimeout     = 65 * time.Second // plugins wait up to 60 s for their own readers
	defaultStopTimeout  = 65 * time.Second
	streamEndTimeout    = time.Second // from half-closing a stream to cancelling it
	maxQuiet            = 2 * time.Second
	shutdownTimeout     = 2 * time.Second // from asking a process to exit to telling it
	terminateTimeout    = time.Second     // from telling it to killing it
)
