package splunk

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/builtin/httpsink"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type settings struct {
	// URL of the collector, such as https://splunk.example.com:8088. services/collector/event is appended to its path.
	URL string `json:"url" literal:"true" validate:"required"`
	// Token of the collector, in the header Authorization, as Splunk TOKEN. By reference.
	Token string `json:"auth.hecToken" validate:"required"`
	// Index, or a template. Empty: the default of the token.
	Index string `json:"index" template:"true"`
	// Host of an event, or a template. Empty: the default of the collector.
	Host string `json:"host" template:"true"`
	// Source of an event, or a template.
	Source string `json:"source" template:"true"`
	// Source type of an event, or a template, such as access_combined.
	Sourcetype string `json:"sourcetype" template:"true"`
	// Template of the indexed field with this name, apart from the event. An empty value omits it.
	Fields map[string]string `json:"fields.*" template:"true"`
	// Whether to wait until the indexers have acknowledged the events. The token must have indexer acknowledgement.
	Acknowledge bool `json:"acknowledge" default:"false"`
	// Time to wait for the acknowledgement. After that the events are sent again.
	AckTimeout time.Duration `json:"acknowledge.timeout" default:"2m" validate:"gt=0"`

	httpsink.Settings
}

// Destination sends events.
type Destination struct {
	httpsink.Destination

	settings settings
	base     *url.URL
	dialect  *collector
}

// Parameters returns the descriptions of the settings.
func (d *Destination) Parameters() sdk.Parameters {
	return httpsink.Described(settings{}, descriptions)
}

// Configure validates and stores the settings.
func (d *Destination) Configure(_ context.Context, values map[string]string) error {
	return common.ParseSettings(values, &d.settings, func() (err error) {
		s := &d.settings
		if d.base, err = httpclient.CheckURL(s.URL); err != nil {
			return err
		}
		if d.dialect, err = newCollector(s); err != nil {
			return err
		}
		if err := s.CheckKey("auth.hecToken", s.Token); err != nil {
			return err
		}
		return s.Check()
	})
}

// Open prepares the client. Write connects.
func (d *Destination) Open(context.Context) error {
	s := d.settings.WithHeader("Authorization", "Splunk "+d.settings.Token)
	channel := ""
	if d.settings.Acknowledge {
		channel = newChannel()
		s = s.WithHeader("X-Splunk-Request-Channel", channel)
	}
	sink, err := httpsink.New(&s, d.dialect, d.base.JoinPath("services/collector/event").String(), "application/json")
	if err != nil {
		return err
	}
	sink.Client.Secrets = []string{d.settings.Token}
	sink.Denies = d.denies
	if d.settings.Acknowledge {
		query := d.base.JoinPath("services/collector/ack")
		values := query.Query()
		values.Set("channel", channel)
		query.RawQuery = values.Encode()
		sink.Confirm = (&acknowledgement{client: sink.Client, url: query.String(), timeout: d.settings.AckTimeout}).wait
	}
	d.Sink = sink
	return nil
}

// newChannel returns a random UUID.
func newChannel() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
