package prometheus

import (
	"context"
	"net"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type sourceSettings struct {
	// Whether the source receives remote write, or scrapes targets.
	Mode string `json:"mode" default:"receive" validate:"inclusion=receive|scrape"`

	// Host and port to listen on. With mode receive.
	Address string `json:"address" default:"127.0.0.1:9201"`
	// Path of accepted requests. With mode receive.
	Path string `json:"path" default:"/api/v1/write" validate:"regex=^/[^\\s{}]*$"`
	// Headers of requests that become metadata http.header.NAME, such as X-Scope-OrgID. With mode receive.
	Headers []string `json:"metadata.headers"`
	// Maximum time that a request waits for the acknowledgement of its records. Then the response is 503. With mode
	// receive.
	AckTimeout time.Duration `json:"ack.timeout" default:"20s" validate:"gt=0"`
	// Maximum size of a body in bytes, compressed and decompressed.
	MaxBody int64 `json:"limit.bodyBytes" default:"8388608" validate:"gt=0"`
	// Maximum number of requests that wait for acknowledgements. Further requests get 503. With mode receive.
	MaxRequests int `json:"limit.requests" default:"1000" validate:"gt=0"`
	// Maximum total memory in bytes of waiting requests, about. Further requests get 503. With mode receive.
	MaxBytes int64 `json:"limit.bytes" default:"67108864" validate:"gt=0"`
	// Maximum number of connections. At the limit, idle connections are closed in favour of new ones. All sources
	// together hold at most half of the file descriptors of the agent. With mode receive.
	Connections int `json:"limit.connections" default:"1000" validate:"gt=0"`
	// Whether other hosts may send requests without credentials. With mode receive.
	AllowAnonymous bool `json:"auth.allowAnonymous" default:"false"`

	// URLs to scrape, such as http://db.example.com:9100/metrics. Required with mode scrape.
	Targets []string `json:"targets" literal:"true"`
	// Label job of scraped samples.
	Job string `json:"job" literal:"true" default:"conduit"`
	// Pause between two scrapes of a target.
	Interval time.Duration `json:"interval" default:"1m" validate:"gt=0"`
	// Headers of the requests to targets, by name.
	RequestHeader map[string]string `json:"headers" literal:"true"`

	// Timeout for receiving a request, or for a scrape.
	Timeout time.Duration `json:"timeout" default:"10s" validate:"gt=0"`

	httpclient.Auth
	common.TLS
}

// check validates combinations of settings.
func (s *sourceSettings) check() error {
	if s.Mode == "scrape" {
		return s.checkScrape()
	}
	return s.checkReceive()
}

func wrong(setting, message string) error {
	return sdk.SettingError{Setting: setting, Message: message}
}

func (s *sourceSettings) checkReceive() error {
	if len(s.Targets) > 0 {
		return wrong("targets", "needs mode scrape")
	}
	if err := common.CheckAddress("address", s.Address); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil || port == "" {
		return wrong("address", "must be a host and a port, such as 127.0.0.1:9201")
	}
	if s.None() && s.CA == "" && !s.AllowAnonymous && !common.IsLoopback(host) {
		return wrong("address", "can be reached from other machines: set auth.token, auth.password or tls.ca, or "+
			"auth.allowAnonymous to true")
	}
	if s.MaxBody > s.MaxBytes {
		return wrong("limit.bodyBytes", "must be at most limit.bytes")
	}
	_, err = s.TLS.Server()
	return err
}

// mode is one of the two kinds of source.
type mode interface {
	open(ctx context.Context, pos record.Position) error
	read(ctx context.Context) ([]record.Record, error)
	ack(n int)
	progress() progress.Report
	close(ctx context.Context) error
}

// Source receives remote write, or scrapes targets.
type Source struct {
	sdk.SourceBase

	settings sourceSettings
	mode     mode // nil before Open
}

// Parameters returns the descriptions of the settings.
func (s *Source) Parameters() sdk.Parameters {
	return sdk.Described(sourceSettings{}, descriptions+httpclient.Descriptions+common.Descriptions)
}

// Configure validates and stores the settings.
func (s *Source) Configure(_ context.Context, values map[string]string) error {
	return common.ParseSettings(values, &s.settings, s.settings.check)
}

// Open starts listening, or prepares scraping. Every position of this source is valid: requests that were not
// acknowledged were not confirmed, so their senders repeat them, and a scrape reads the present values.
func (s *Source) Open(ctx context.Context, pos record.Position) error {
	numbers, err := common.NewNumbers(pos)
	if err != nil {
		return err
	}
	if s.settings.Mode == "scrape" {
		s.mode = &scraper{settings: &s.settings, numbers: numbers}
	} else {
		s.mode = &receiver{settings: &s.settings, numbers: numbers}
	}
	return s.mode.open(ctx, pos)
}

// AckTimeout implements sdk.AwaitedSource.
func (s *Source) AckTimeout() time.Duration {
	if s.settings.Mode == "scrape" {
		return 0
	}
	return s.settings.AckTimeout
}

// maxRead is the approximate number of records that one Read returns.
const maxRead = 1000

// Read returns the records of received requests, or of a scrape.
func (s *Source) Read(ctx context.Context) ([]record.Record, error) { return s.mode.read(ctx) }

// Ack responds to the requests whose records are all acknowledged.
func (s *Source) Ack(_ context.Context, positions []record.Position) error {
	s.mode.ack(len(positions))
	return nil
}

// Progress reports the number of unacknowledged records of received requests, or a target that does not respond.
func (s *Source) Progress() progress.Report { return s.mode.progress() }

// Teardown asks the senders of waiting requests to retry, and ends the source.
func (s *Source) Teardown(ctx context.Context) error {
	if s.mode == nil {
		return nil
	}
	return s.mode.close(ctx)
}
