package loki

import (
	"context"
	"net/url"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/builtin/httpsink"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type settings struct {
	// URL of the server, such as http://loki.example.com:3100. loki/api/v1/push is appended to its path.
	URL string `json:"url" literal:"true" validate:"required"`
	// Template of the label with this name, such as labels.job. An empty value omits the label. At least one is needed.
	Labels map[string]string `json:"labels.*" template:"true"`
	// Template of the line. Empty: the payload after the change, as text or JSON.
	Line string `json:"line" template:"true"`
	// Template of the structured metadata of a line with this name. An empty value omits it.
	Metadata map[string]string `json:"metadata.*" template:"true"`
	// Tenant, in the header X-Scope-OrgID.
	Tenant string `json:"tenant" literal:"true"`
	// Maximum number of streams, which are the different sets of labels, used within an hour. A line of another stream
	// is refused.
	MaxStreams int `json:"streams.max" default:"5000" validate:"gt=0"`

	httpsink.Settings
}

// maxBytes is the default of batch.maxBytes: the server refuses requests that are larger than its limit of bytes per
// second, which is 4 MiB by default.
const maxBytes = "1048576"

// Destination writes log lines.
type Destination struct {
	httpsink.Destination

	settings settings
	target   *url.URL
	dialect  *push
}

// Parameters returns the descriptions of the settings.
func (d *Destination) Parameters() sdk.Parameters {
	all := httpsink.Described(settings{}, descriptions)
	bytes := all["batch.maxBytes"]
	bytes.Default = maxBytes
	all["batch.maxBytes"] = bytes
	return all
}

// Configure validates and stores the settings.
func (d *Destination) Configure(_ context.Context, values map[string]string) error {
	return common.ParseSettings(values, &d.settings, func() error {
		s := &d.settings
		base, err := httpclient.CheckURL(s.URL)
		if err != nil {
			return err
		}
		d.target = base.JoinPath("loki/api/v1/push")
		if d.dialect, err = newPush(s); err != nil {
			return err
		}
		if err := sdk.CheckHeader("tenant", s.Tenant); err != nil {
			return err
		}
		return s.Check()
	})
}

// Open prepares the client. Write connects.
func (d *Destination) Open(context.Context) (err error) {
	s := d.settings.Settings
	if d.settings.Tenant != "" {
		s = s.WithHeader("X-Scope-OrgID", d.settings.Tenant)
	}
	d.Sink, err = httpsink.New(&s, d.dialect, d.target.String(), "application/json")
	return err
}
