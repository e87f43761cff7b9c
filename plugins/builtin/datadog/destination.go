package datadog

import (
	"context"
	"net/url"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/builtin/httpsink"
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
	httpsink.Destination

	settings settings
	target   *url.URL
	dialect  *logs
}

// Parameters returns the descriptions of the settings.
func (d *Destination) Parameters() sdk.Parameters {
	return httpsink.Described(settings{}, descriptions)
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
		if err := s.CheckKey("auth.apiKey", s.APIKey); err != nil {
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
	s := d.settings.WithHeader("DD-API-KEY", d.settings.APIKey)
	sink, err := httpsink.New(&s, d.dialect, d.target.String(), "application/json")
	if err != nil {
		return err
	}
	sink.Client.Secrets = []string{d.settings.APIKey}
	d.Sink = sink
	return nil
}
