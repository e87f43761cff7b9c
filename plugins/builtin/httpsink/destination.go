package httpsink

import (
	"context"
	"maps"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Destination is embedded by the destinations. They add Parameters, Configure and Open, which sets Sink.
type Destination struct {
	sdk.DestinationBase

	Sink *Sink // nil before Open
}

// Write sends the records in order. It returns after the first one that is refused.
func (d *Destination) Write(ctx context.Context, records []record.Record) (int, error) {
	return d.Sink.Write(ctx, records)
}

// Teardown closes connections.
func (d *Destination) Teardown(context.Context) error {
	if d.Sink != nil {
		d.Sink.Client.Close()
	}
	return nil
}

// Described returns the settings of a destination. all is a struct that embeds Settings, and own has the descriptions
// of its own fields.
func Described(all any, own string) sdk.Parameters {
	return sdk.Described(all, own+descriptions+httpclient.Descriptions+common.Descriptions)
}

// WithHeader returns the settings with one more header.
func (s Settings) WithHeader(name, value string) Settings {
	headers := map[string]string{}
	maps.Copy(headers, s.Headers)
	headers[name] = value
	s.Headers = headers
	return s
}

// CheckKey checks the value of a setting for a secret that is sent in a header instead of the settings auth.*.
func (s *Settings) CheckKey(setting, value string) error {
	if value != "" && !s.None() {
		return sdk.SettingError{Setting: setting,
			Message: "cannot be used with auth.token, auth.username or auth.password: remove them"}
	}
	return sdk.CheckHeader(setting, value)
}
