package datadog

import (
	"context"
	"maps"
	"net/url"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/builtin/httpsink"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type settings struct {
	// URL of the server. api/v2/logs is appended to its path. Of another site than US1 it is for example
	// https://http-intake.logs.datadoghq.eu.
	URL string `json:"url" literal:"true" default:"https://http-intake.logs.datadoghq.com"`
	// API key, in the header DD-API-KEY. By reference.
	APIKey string `json:"auth.apiKey" validate:"required"`
	// Service of a log, or a template.
	Service string `json:"service" template:"true"`
	// Source of a log, such as nginx, or a template. It selects the pipeline in Datadog.
	Source string `json:"ddsource" template:"true"`
	// Host of a log, or a template.
	Hostname string `json:"hostname" template:"true"`
	// Tags of a log, such as env:prod,team:web, or a template.
	Tags string `json:"ddtags" template:"true"`
	// Member for a payload that is not a JSON object, as text.
	MessageField string `json:"message.field" literal:"true" default:"message" validate:"required"`

	httpsink.Settings
}

// maxRecords is the maximum number of logs in a request, as the server allows.
const maxRecords = 1000

// Destination sends logs.
type Destination struct {
	sdk.DestinationBase

	settings settings
	target   *url.URL
	dialect  *logs
	sink     *httpsink.Sink // nil before Open
}

// Parameters returns the descriptions of the settings.
func (d *Destination) Parameters() sdk.Parameters {
	return sdk.Described(settings{},
		descriptions+httpsink.Descriptions+httpclient.Descriptions+common.Descriptions)
}

// Configure validates and stores the settings.
func (d *Destination) Configure(_ context.Context, values map[string]string) error {
	return common.ParseSettings(values, &d.settings, func() error {
		s := &d.settings
		base, err := httpclient.CheckURL(s.URL)
		if err != nil {
			return err
		}
		d.target = base.JoinPath("api/v2/logs")
		if d.dialect, err = newLogs(s); err != nil {
			return err
		}
		if !s.None() {
			return sdk.SettingError{Setting: "auth.apiKey",
				Message: "cannot be used with auth.token, auth.username or auth.password: remove them"}
		}
		if err := sdk.CheckHeader("auth.apiKey", s.APIKey); err != nil {
			return err
		}
		if s.MaxRecords > maxRecords {
			return sdk.SettingError{Setting: "batch.maxRecords",
				Message: "must be at most " + strconv.Itoa(maxRecords) + ": the server accepts no more logs in a request"}
		}
		return s.Check()
	})
}

// Open prepares the client. Write connects.
func (d *Destination) Open(context.Context) error {
	s := d.settings.Settings
	if s.Headers = maps.Clone(s.Headers); s.Headers == nil {
		s.Headers = map[string]string{}
	}
	s.Headers["DD-API-KEY"] = d.settings.APIKey
	sink, err := httpsink.New(&s, d.dialect, d.target.String(), "application/json")
	if err != nil {
		return err
	}
	sink.Client.Secrets = []string{d.settings.APIKey}
	d.sink = sink
	return nil
}

// Write sends the records as logs.
func (d *Destination) Write(ctx context.Context, records []record.Record) (int, error) {
	d.dialect.limit.Begin(ctx)
	return d.sink.Write(ctx, records)
}

// Teardown closes connections.
func (d *Destination) Teardown(context.Context) error {
	if d.sink != nil {
		d.sink.Close()
	}
	return nil
}
