package http

import (
	"context"
	"net"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/csv"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type sourceSettings struct {
	// Host and port to listen on, unless url is set.
	Address string `json:"address" default:"127.0.0.1:8090"`
	// Path of accepted requests; with a trailing / it includes all paths below.
	Path string `json:"path" default:"/" validate:"regex=^/[^\\s{}]*$"`
	// Methods of accepted requests.
	Methods []string `json:"methods" default:"POST"`
	// Headers of received requests, or of polled responses, that become metadata http.header.NAME.
	Headers []string `json:"metadata.headers"`
	// Maximum time that a request waits for the acknowledgement of its records. Then the response is 503.
	AckTimeout time.Duration `json:"ack.timeout" default:"30s" validate:"gt=0"`
	// Maximum size of an uncompressed body in bytes.
	MaxBody int64 `json:"body.maxBytes" default:"8388608" validate:"gt=0"`
	// Conversion of a body to records. raw: one record. lines: one for each line. json: one for each element of an
	// array, or one. csv: one for each line behind the header, as an object; quotes may span lines. auto: raw, lines or
	// json by its Content-Type.
	Body string `json:"body.format" default:"auto" validate:"inclusion=auto|raw|lines|json|csv"`
	// Maximum number of requests that wait for acknowledgements. Further requests get 503.
	MaxRequests int `json:"limit.requests" default:"1000" validate:"gt=0"`
	// Maximum number of connections. At the limit, idle connections are closed in favour of new ones. All sources
	// together hold at most half of the file descriptors of the agent.
	Connections int `json:"limit.connections" default:"1000" validate:"gt=0"`
	// Maximum total size in bytes of waiting bodies. Further requests get 503.
	MaxBytes int64 `json:"limit.bytes" default:"33554432" validate:"gt=0"`
	// Maximum number of requests per second. Further requests get 429. 0: no limit.
	Rate float64 `json:"limit.requestsPerSecond" default:"0" validate:"gt=-1"`
	// Whether other hosts may send requests without credentials.
	AllowAnonymous bool `json:"auth.allowAnonymous" default:"false"`

	// URL to poll. Without it the source is a server.
	URL string `json:"url" literal:"true"`
	// Method of poll requests.
	Method string `json:"method" default:"GET" validate:"inclusion=GET|POST"`
	// Body of poll requests.
	Request string `json:"request.body"`
	// Headers of poll requests, by name.
	RequestHeader map[string]string `json:"headers" literal:"true"`
	// Pause before the next poll when the last response had no more records.
	Period time.Duration `json:"pollingPeriod" default:"1m" validate:"gt=0"`
	// Timeout for sending or receiving a request or a response.
	Timeout time.Duration `json:"timeout" default:"30s" validate:"gt=0"`
	// Path of the records in a JSON response, such as data.items.
	Records string `json:"records.path"`
	// Field that increases from record to record, such as updated_at or meta.id. Polling resumes after its last value.
	CursorField string `json:"cursor.field"`
	// Path of the next cursor in a JSON response, such as next_cursor. Instead of cursor.field.
	CursorPath string `json:"cursor.path"`
	// Query parameter that receives the last value.
	CursorParam string `json:"cursor.param"`
	// Value of the parameter in the first poll. Empty: the parameter is omitted.
	CursorStart string `json:"cursor.initial"`
	// Method to find the next page. link: header Link with rel=next. token: a URL or token at pagination.path. page:
	// the number in pagination.param grows until a page is empty.
	Pages string `json:"pagination" default:"none" validate:"inclusion=none|link|token|page"`
	// Path of the URL or token of the next page in a JSON response.
	PagesPath string `json:"pagination.path"`
	// Query parameter that receives the token or the page number, which starts at 1.
	PagesParam string `json:"pagination.param"`

	csv.Settings
	httpclient.Auth
	httpclient.HMAC
	common.TLS

	csv *csv.Reader
}

// check validates combinations of settings.
func (s *sourceSettings) check() (err error) {
	if s.csv, err = csv.NewReader(&s.Settings); err != nil {
		return err
	}
	switch {
	case s.URL == "":
		return s.checkServer()
	case s.Address != defaultAddress:
		return sdk.SettingError{Setting: "url",
			Message: "cannot be set with address: a source receives requests or polls"}
	}
	return s.checkPoll()
}

const defaultAddress = "127.0.0.1:8090"

func (s *sourceSettings) checkServer() error {
	if err := common.CheckAddress("address", s.Address); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil || port == "" {
		return sdk.SettingError{Setting: "address", Message: "must be a host and a port, such as 127.0.0.1:8090"}
	}
	if s.None() && s.HMACSecret == "" && s.CA == "" && !s.AllowAnonymous && !common.IsLoopback(host) {
		return sdk.SettingError{Setting: "address",
			Message: "can be reached from other machines: set auth.token, auth.password, auth.hmac.secret or tls.ca, " +
				"or auth.allowAnonymous to true"}
	}
	_, err = s.TLS.Server()
	return err
}

func (s *sourceSettings) checkPoll() error {
	if _, err := httpclient.CheckURL(s.URL); err != nil {
		return err
	}
	if err := s.CheckHeaders(s.RequestHeader); err != nil {
		return err
	}
	wrong := func(setting, message string) error { return sdk.SettingError{Setting: setting, Message: message} }
	cursor := s.CursorField != "" || s.CursorPath != ""
	switch {
	case s.CursorField != "" && s.CursorPath != "":
		return wrong("cursor.path", "cannot be set with cursor.field")
	case cursor && s.CursorParam == "":
		return wrong("cursor.param", "is required with cursor.field and cursor.path")
	case !cursor && s.CursorParam != "":
		return wrong("cursor.param", "needs cursor.field or cursor.path")
	case s.Pages == "token" && s.PagesPath == "":
		return wrong("pagination.path", "is required with pagination token")
	case s.Pages == "page" && s.PagesParam == "":
		return wrong("pagination.param", "is required with pagination page")
	case s.CursorPath != "" && s.Pages != "none":
		return wrong("pagination", "must be none with cursor.path, which leads from page to page")
	}
	_, err := s.Client()
	return err
}

// mode is one of the two kinds of source.
type mode interface {
	open(ctx context.Context, pos record.Position) error
	read(ctx context.Context) ([]record.Record, error)
	ack(positions []record.Position) error
	close(ctx context.Context) error
	progress() progress.Report
}

// Source receives requests, or polls a URL.
type Source struct {
	sdk.SourceBase

	settings sourceSettings
	mode     mode // nil before Open
}

// Parameters returns the descriptions of the settings.
func (s *Source) Parameters() sdk.Parameters {
	return sdk.Described(sourceSettings{}, descriptions+csv.Descriptions+httpclient.Descriptions+common.Descriptions)
}

// Configure validates and stores the settings.
func (s *Source) Configure(_ context.Context, values map[string]string) error {
	return common.ParseSettings(values, &s.settings, s.settings.check)
}

// Open starts listening, or prepares polling from pos.
func (s *Source) Open(ctx context.Context, pos record.Position) error {
	if s.settings.URL == "" {
		s.mode = &server{settings: &s.settings}
	} else {
		s.mode = &poller{settings: &s.settings}
	}
	return s.mode.open(ctx, pos)
}

// AckTimeout implements sdk.AwaitedSource.
func (s *Source) AckTimeout() time.Duration {
	if s.settings.URL != "" {
		return 0
	}
	return s.settings.AckTimeout
}

// Read returns the records of received requests, or of polled responses.
func (s *Source) Read(ctx context.Context) ([]record.Record, error) { return s.mode.read(ctx) }

// Ack answers the requests whose records are all acknowledged.
func (s *Source) Ack(_ context.Context, positions []record.Position) error {
	return s.mode.ack(positions)
}

// Progress reports the number of unacknowledged records of received requests.
func (s *Source) Progress() progress.Report { return s.mode.progress() }

// Teardown answers pending requests with 503 and ends the source.
func (s *Source) Teardown(ctx context.Context) error {
	if s.mode == nil {
		return nil
	}
	return s.mode.close(ctx)
}
