package prometheus

import (
	"context"
	"fmt"
	"net/http"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/builtin/httpsink"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type settings struct {
	// URL for remote write, such as http://prometheus.example.com:9090/api/v1/write.
	URL string `json:"url" literal:"true" validate:"required"`
	// Version of remote write: 1, which every server accepts, or 2.
	Protocol string `json:"protocol" default:"1" validate:"inclusion=1|2"`
	// Template of the name of the metric. Empty: the member name of the payload.
	Name string `json:"name" template:"true"`
	// Template of the value. Empty: the member value of the payload, or its member histogram or exemplar.
	Value string `json:"value" template:"true"`
	// Template of the label with this name, such as labels.host. It replaces the member of the member labels of the
	// payload. An empty value omits the label.
	Labels map[string]string `json:"labels.*" template:"true"`
	// Template of the time, in RFC 3339 or in milliseconds since 1970. Empty: the time of creation, or else of reading.
	Time string `json:"time" template:"true"`
	// Template of the type of the metric, such as counter or gauge. Empty: the member type of the payload, if it is a
	// type.
	Type string `json:"type" template:"true"`
	// Template of the description of the metric. Empty: the member help of the payload.
	Help string `json:"help" template:"true"`
	// Template of the unit of the metric. Empty: the member unit of the payload.
	Unit string `json:"unit" template:"true"`
	// Names of metrics and labels. legacy: letters, digits and _, which every server accepts. utf8: any text, which
	// Prometheus 3 accepts. Older servers drop other names without an error.
	Names string `json:"names" default:"legacy" validate:"inclusion=legacy|utf8"`
	// Maximum number of series, which are the different names with labels, used within an hour. A sample of another
	// series is refused.
	MaxSeries int `json:"series.max" default:"100000" validate:"gt=0"`

	httpsink.Settings
}

// Destination sends samples.
type Destination struct {
	httpsink.Destination

	settings settings
	writer   *writer
}

// Parameters returns the descriptions of the settings. The protocol defines the compression.
func (d *Destination) Parameters() sdk.Parameters {
	all := httpsink.Described(settings{}, descriptions)
	delete(all, "compression")
	return all
}

// Configure validates and stores the settings.
func (d *Destination) Configure(_ context.Context, values map[string]string) error {
	return common.ParseSettings(values, &d.settings, func() (err error) {
		s := &d.settings
		if _, err := httpclient.CheckURL(s.URL); err != nil {
			return err
		}
		if d.writer, err = newWriter(s); err != nil {
			return err
		}
		return s.Check()
	})
}

// Content types and versions of the protocols.
const (
	contentType1 = "application/x-protobuf"
	contentType2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
	version1     = "0.1.0"
	version2     = "2.0.0"
)

// Open prepares the client. Write connects.
func (d *Destination) Open(context.Context) (err error) {
	s := d.settings.Settings
	s.Compression = "none" // bodies are compressed already
	contentType, version := contentType1, version1
	if d.writer.v2 {
		contentType, version = contentType2, version2
	}
	s = s.WithHeader("X-Prometheus-Remote-Write-Version", version).WithHeader("Content-Encoding", "snappy")
	d.Sink, err = httpsink.New(&s, d.writer, d.settings.URL, contentType)
	if err != nil {
		return err
	}
	d.Sink.Judge, d.Sink.Partial = d.writer.judge, d.writer.partial
	d.Sink.Denies = func(r *httpclient.Response) error {
		if r.Status != http.StatusUnsupportedMediaType {
			return nil
		}
		return fmt.Errorf("%w: set protocol to the version of remote write that the server accepts",
			d.Sink.Client.ResponseError(r))
	}
	return nil
}

// Write writes the records as samples.
func (d *Destination) Write(ctx context.Context, records []record.Record) (int, error) {
	n, err := d.Destination.Write(ctx, records)
	if d.writer.repeated > 0 {
		sdk.Logger(ctx).Warn("the server refused samples as out of order, which count as written: they repeat ones from "+
			"before a restart or a lost response, or something else writes newer samples to their series", "records",
			d.writer.repeated)
	}
	return n, err
}
