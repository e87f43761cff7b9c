package elasticsearch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/builtin/httpsink"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

type settings struct {
	// URL of the server, such as https://search.example.com:9200. Its path and its query are kept.
	URL string `json:"url" literal:"true" validate:"required"`
	// Name of an index, an alias or a data stream, or a template, such as logs-{{ .Metadata.team }}.
	Index string `json:"index" template:"true" default:"{{ index .Metadata \"opencdc.collection\" }}"`
	// Whether the names are those of data streams, whose documents are only added and need a time. See timestamp.field.
	DataStream bool `json:"dataStream" default:"false"`
	// Template of the document's id. Empty: the structured key of the record; without such a key, and in data streams,
	// a number made of the record's source and position.
	ID string `json:"id" template:"true"`
	// Field that gets the record's time (opencdc.createdAt, or else opencdc.readAt) if the document does not have the
	// field. Empty: @timestamp in data streams, else none.
	TimestampField string `json:"timestamp.field" literal:"true"`
	// Field for a payload that is not a JSON object, as text.
	MessageField string `json:"message.field" literal:"true" default:"message"`
	// Name of an index template that is created or replaced before the first write.
	TemplateName string `json:"indexTemplate.name" literal:"true"`
	// The index template, a JSON object such as {"index_patterns": ["logs-*"], "data_stream": {}}.
	TemplateBody string `json:"indexTemplate.body" literal:"true"`
	// API key in the header Authorization, as the server encodes it. By reference.
	APIKey string `json:"auth.apiKey"`

	httpsink.Settings
}

// Destination writes documents.
type Destination struct {
	httpsink.Destination

	settings settings
	base     *url.URL
	dialect  bulk
	prepared bool // the index template is stored
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
		if d.dialect, err = newBulk(s); err != nil {
			return err
		}
		return s.check()
	})
}

func (s *settings) check() error {
	if err := s.CheckKey("auth.apiKey", s.APIKey); err != nil {
		return err
	}
	if (s.TemplateName == "") != (s.TemplateBody == "") {
		return sdk.SettingError{Setting: "indexTemplate.name",
			Message: "needs indexTemplate.body, and the other way round"}
	}
	var object map[string]json.RawMessage
	if s.TemplateBody != "" && json.Unmarshal([]byte(s.TemplateBody), &object) != nil {
		return sdk.SettingError{Setting: "indexTemplate.body", Message: "must be a JSON object"}
	}
	return s.Settings.Check()
}

// Open prepares the client. Write connects.
func (d *Destination) Open(context.Context) error {
	s := d.settings.Settings
	if d.settings.APIKey != "" {
		s = s.WithHeader("Authorization", "ApiKey "+d.settings.APIKey)
	}
	target := d.base.JoinPath("_bulk")
	query := target.Query()
	query.Set("filter_path", "errors,items.*.status,items.*.error")
	target.RawQuery = query.Encode()
	sink, err := httpsink.New(&s, &d.dialect, target.String(), "application/x-ndjson")
	if err != nil {
		return err
	}
	sink.Client.Secrets = []string{d.settings.APIKey}
	sink.Probe = d.probe
	d.Sink, d.prepared = sink, false
	return nil
}

// probe reports whether the server at url says which version it has, as all of these servers do.
func (d *Destination) probe(ctx context.Context) bool {
	r, err := d.Sink.Client.Do(ctx, http.MethodGet, d.base.String(), nil, nil)
	var info struct{ Version map[string]any }
	return err == nil && r.Status == http.StatusOK && json.Unmarshal(r.Body, &info) == nil && info.Version != nil
}

// Write writes the records as documents.
func (d *Destination) Write(ctx context.Context, records []record.Record) (int, error) {
	if !d.prepared {
		if err := d.prepare(ctx); err != nil {
			return 0, sdk.Unavailable(err)
		}
		d.prepared = true
	}
	return d.Destination.Write(ctx, records)
}

// prepare stores the index template.
func (d *Destination) prepare(ctx context.Context) error {
	s := &d.settings
	if s.TemplateName == "" {
		return nil
	}
	target := d.base.JoinPath("_index_template", s.TemplateName).String()
	if _, err := d.Sink.Request(ctx, http.MethodPut, target, "application/json", []byte(s.TemplateBody)); err != nil {
		return fmt.Errorf("cannot store the index template %q: %w", s.TemplateName, err)
	}
	return nil
}

// checkIndex returns an error for a name that no index, alias or data stream can have.
func checkIndex(name string) error {
	const most = 255
	switch {
	case name == "":
		return errors.New("the name of the index is empty: set index")
	case strings.ToLower(name) != name:
		return fmt.Errorf("the name of the index, %.64q, must be lowercase: use index: '{{ … | lower }}'", name)
	case strings.ContainsAny(name, "\\/*?\"<>| ,#:") || strings.ContainsFunc(name, isControl):
		return fmt.Errorf("the name of the index, %.64q, must not contain spaces or \\ / * ? \" < > | , # : anywhere",
			name)
	case strings.ContainsAny(name[:1], "-_+"), name == ".", name == "..":
		return fmt.Errorf("the name of the index, %.64q, must not begin with - _ or +, nor be . or .. itself", name)
	case len(name) > most:
		return fmt.Errorf("the name of the index, %.64q…, has more than %d bytes", name, most)
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// parseTemplate parses a setting that may be empty.
func parseTemplate(setting, text string, check func(string) error) (*template.Template, error) {
	if text == "" {
		return nil, nil
	}
	return common.ParseTemplate(setting, text, check)
}
