package influxdb

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/builtin/httpsink"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type settings struct {
	// URL of the server, such as http://influx.example.com:8086. The path of the API is appended to its path.
	URL string `json:"url" literal:"true" validate:"required"`
	// API of the server: v1 (/write), v2 (/api/v2/write), or v3 (/api/v3/write_lp).
	API string `json:"api" default:"v2" validate:"inclusion=v1|v2|v3"`
	// Database, with v1 and v3.
	Database string `json:"database" literal:"true"`
	// Retention policy of the database, with v1. Empty: its default.
	RetentionPolicy string `json:"retentionPolicy" literal:"true"`
	// Organization, with v2.
	Org string `json:"org" literal:"true"`
	// Bucket, with v2.
	Bucket string `json:"bucket" literal:"true"`
	// Measurement, or a template.
	Measurement string `json:"measurement" template:"true" default:"{{ index .Metadata \"opencdc.collection\" }}"`
	// Template of the tag with this name, such as tags.host. An empty value omits the tag.
	Tags map[string]string `json:"tags.*" template:"true"`
	// Members of the payload that are fields of the point, such as temperature, or status.code in an object. Empty: all.
	Fields []string `json:"fields" literal:"true"`
	// Members of the payload that are not fields.
	Exclude []string `json:"fields.exclude" literal:"true"`
	// Field for a payload that is not a JSON object, as text.
	MessageField string `json:"message.field" literal:"true" default:"message" validate:"required"`
	// Type of whole numbers: float, as a field that is sometimes a fraction must be, or integer.
	Integers string `json:"fields.integers" default:"float" validate:"inclusion=float|integer"`
	// Maximum number of series, which are the different measurements with tags, used within an hour. A point of another
	// series is refused.
	MaxSeries int `json:"series.max" default:"100000" validate:"gt=0"`

	httpsink.Settings
}

// Destination writes points.
type Destination struct {
	httpsink.Destination

	settings settings
	target   *url.URL
	dialect  *lines
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
		if err := s.checkTarget(); err != nil {
			return err
		}
		d.target = s.target(base)
		if d.dialect, err = newLines(s); err != nil {
			return err
		}
		return s.Check()
	})
}

// checkTarget checks the settings of the place to write to, which depend on the API.
func (s *settings) checkTarget() error {
	needs := func(setting, value string, apis ...string) error {
		for _, api := range apis {
			if s.API == api && value == "" {
				return sdk.SettingError{Setting: setting, Message: "is required with api " + api}
			}
			if s.API == api {
				return nil
			}
		}
		if value != "" {
			return sdk.SettingError{Setting: setting, Message: "needs api " + strings.Join(apis, " or ") + ", not " + s.API}
		}
		return nil
	}
	if err := needs("database", s.Database, "v1", "v3"); err != nil {
		return err
	}
	if err := needs("org", s.Org, "v2"); err != nil {
		return err
	}
	if err := needs("bucket", s.Bucket, "v2"); err != nil {
		return err
	}
	if s.RetentionPolicy != "" && s.API != "v1" {
		return sdk.SettingError{Setting: "retentionPolicy", Message: "needs api v1, not " + s.API}
	}
	return nil
}

// target returns the URL of the write API.
func (s *settings) target(base *url.URL) *url.URL {
	path := map[string]string{"v1": "write", "v2": "api/v2/write", "v3": "api/v3/write_lp"}[s.API]
	query := map[string]string{"precision": "ns"}
	switch s.API {
	case "v1":
		query["db"], query["rp"] = s.Database, s.RetentionPolicy
	case "v2":
		query["org"], query["bucket"] = s.Org, s.Bucket
	case "v3":
		query["db"], query["precision"] = s.Database, "nanosecond"
	}
	u := base.JoinPath(path)
	values := u.Query()
	for name, value := range query {
		if value != "" {
			values.Set(name, value)
		}
	}
	u.RawQuery = values.Encode()
	return u
}

// Open prepares the client. Write connects.
func (d *Destination) Open(context.Context) error {
	s := d.settings.Settings
	token := s.Token
	if d.settings.API == "v2" && token != "" {
		s = s.WithHeader("Authorization", "Token "+token)
		s.Token = ""
	}
	sink, err := httpsink.New(&s, d.dialect, d.target.String(), "text/plain; charset=utf-8")
	if err != nil {
		return err
	}
	sink.Client.Secrets = []string{token}
	place := map[string]string{"v1": "the database", "v2": "the bucket or the organization", "v3": "the database"}
	sink.Denies = func(r *httpclient.Response) error {
		if r.Status != http.StatusNotFound {
			return nil
		}
		return fmt.Errorf("%w: check that %s exists, and check api and the path in url", sink.Client.ResponseError(r),
			place[d.settings.API])
	}
	d.Sink = sink
	return nil
}
