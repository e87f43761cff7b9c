package otlp

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type sourceSettings struct {
	// Hosts and ports to listen on. gRPC and HTTP are accepted on each.
	Addresses []string `json:"addresses" default:"127.0.0.1:4317, 127.0.0.1:4318"`
	// Conversion of a request to records. items: one for each log record, data point and span. requests: one for each
	// request, with its unchanged body.
	Records string `json:"records" default:"items" validate:"inclusion=items|requests"`
	// Place of resource and scope of an item: the payload, or metadata otlp.resource and otlp.scope as JSON.
	Resource string `json:"resource" default:"payload" validate:"inclusion=payload|metadata"`
	// Maximum time that a request waits for the acknowledgement of its records. Then the sender is asked to retry.
	AckTimeout time.Duration `json:"ack.timeout" default:"10s" validate:"gt=0"`
	// Timeout for receiving a request.
	Timeout time.Duration `json:"timeout" default:"30s" validate:"gt=0"`
	// Maximum size of a request in bytes, compressed and decompressed.
	MaxBody int64 `json:"limit.requestBytes" default:"8388608" validate:"gt=0"`
	// Maximum number of requests that wait for acknowledgements. At the limit, senders are asked to retry.
	MaxRequests int `json:"limit.requests" default:"1000" validate:"gt=0"`
	// Maximum total memory in bytes of waiting requests, about. At the limit, senders are asked to retry.
	MaxBytes int64 `json:"limit.bytes" default:"67108864" validate:"gt=0"`
	// Maximum number of connections to each address. At the limit, idle connections are closed in favour of new ones.
	// All sources together hold at most half of the file descriptors of the agent.
	Connections int `json:"limit.connections" default:"1000" validate:"gt=0"`
	// Token that requests must have in the header Authorization, as Bearer TOKEN. By reference, such as
	// ${file:/etc/conduit/token}.
	Token string `json:"auth.token"`
	// Whether other hosts may send requests without credentials.
	AllowAnonymous bool `json:"auth.allowAnonymous" default:"false"`

	common.TLS
}

// check validates combinations of settings.
func (s *sourceSettings) check() error {
	wrong := func(setting, message string) error { return sdk.SettingError{Setting: setting, Message: message} }
	if len(s.Addresses) == 0 {
		return wrong("addresses", "needs a host and a port, such as 127.0.0.1:4317")
	}
	for i, address := range s.Addresses {
		if err := common.CheckAddress("addresses", address); err != nil {
			return err
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil || port == "" {
			return wrong("addresses", "must be hosts and ports, such as 127.0.0.1:4317")
		}
		if port != "0" && slices.Contains(s.Addresses[:i], address) {
			return wrong("addresses", address+" appears twice: remove one")
		}
		if s.Token == "" && s.CA == "" && !s.AllowAnonymous && !common.IsLoopback(host) {
			return wrong("addresses", address+" can be reached from other machines: set auth.token or tls.ca, or "+
				"auth.allowAnonymous to true")
		}
	}
	if s.MaxBody > s.MaxBytes {
		return wrong("limit.requestBytes", "must be at most limit.bytes")
	}
	_, err := s.TLS.Server()
	return err
}

// Source receives requests.
type Source struct {
	sdk.SourceBase

	settings sourceSettings
	server   *server // nil before Open
}

// Parameters returns the descriptions of the settings.
func (s *Source) Parameters() sdk.Parameters {
	return sdk.Described(sourceSettings{}, descriptions+common.Descriptions)
}

// Configure validates and stores the settings.
func (s *Source) Configure(_ context.Context, values map[string]string) error {
	return common.ParseSettings(values, &s.settings, s.settings.check)
}

// Open starts listening. Every position of this source is valid: requests that were not acknowledged were not answered,
// so their senders repeat them.
func (s *Source) Open(ctx context.Context, pos record.Position) error {
	numbers, err := common.NewNumbers(pos)
	if err != nil {
		return err
	}
	s.server = newServer(ctx, &s.settings, numbers)
	return s.server.listen(ctx)
}

// AckTimeout implements sdk.AwaitedSource.
func (s *Source) AckTimeout() time.Duration { return s.settings.AckTimeout }

// maxRead is the approximate number of records that one Read returns.
const maxRead = 1000

// Read returns the records of received requests.
func (s *Source) Read(ctx context.Context) ([]record.Record, error) {
	return s.server.requests.Next(ctx, maxRead)
}

// Ack answers the requests whose records are all acknowledged.
func (s *Source) Ack(_ context.Context, positions []record.Position) error {
	s.server.requests.Ack(len(positions))
	return nil
}

// Progress reports the number of unacknowledged records.
func (s *Source) Progress() progress.Report {
	n := s.server.requests.Waits()
	return progress.Report{Records: &n, At: time.Now(), Endless: true}
}

// Teardown asks the senders of waiting requests to retry, and ends the source.
func (s *Source) Teardown(ctx context.Context) error {
	if s.server == nil || s.server.http == nil {
		return nil
	}
	return s.server.http.Close(ctx)
}
