// Command sdk is a processor made with the project's SDK.
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/sdk/wasmguest"
)

func main() {
	wasmguest.Serve(sdk.ProcessorPlugin{
		Name: "with-sdk", Summary: "A test.", Description: "Does what the payload says.", Version: "v1.0.0",
		Author: "test",
		New:    func() sdk.Processor { return &processor{} },
	})
}

type settings struct {
	Prefix string `json:"prefix" default:"hello, " desc:"What to put before the payload." validate:"exclusion=x"`
	Count  int    `json:"count" default:"1" validate:"gt=0"`
}

type processor struct {
	sdk.ProcessorBase
	settings settings
}

func (*processor) Parameters() sdk.Parameters { return sdk.ParametersOf(settings{}) }

func (p *processor) Configure(_ context.Context, s map[string]string) error {
	return sdk.Decode(s, &p.settings)
}

func (p *processor) Open(ctx context.Context) error {
	sdk.Logger(ctx).Warn("opened", "prefix", p.settings.Prefix)
	return nil
}

func (p *processor) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	for i := range b.Len() {
		r := b.Record(i)
		raw, ok := r.After.Raw()
		switch {
		case !ok:
			m, _ := r.After.Structured()
			m["seen"] = true
		case string(raw) == "filter":
			b.Filter(i)
		case string(raw) == "refuse":
			b.Refuse(i, errors.New("refused"))
		case string(raw) == "clone":
			b.Replace(i, []record.Record{r.Clone(), r.Clone()})
		case string(raw) == "panic":
			panic("oh no")
		case string(raw) == "break":
			return errors.New("broken")
		case string(raw) == "hold":
			b.Hold(i)
		case string(raw) == "schema":
			s, err := sdk.EnvFrom(ctx).Schemas.Create(ctx, "s", 1, `{"type":"record","name":"r","fields":[]}`)
			r.Metadata.Set("schema", fmt.Sprint(s.Subject, s.Version, s.Text, err))
			_, err = sdk.EnvFrom(ctx).Schemas.Get(ctx, "none", 1)
			r.Metadata.Set("missing", fmt.Sprint(err))
		case len(raw) > 4 && string(raw[:4]) == "http":
			answer, err := wasmguest.HTTP(wasmguest.Request{Method: "POST", URL: string(raw),
				Header: map[string][]string{"X-Test": {"a"}}, Body: []byte("body")})
			r.Metadata.Set("http", fmt.Sprint(answer.Status, string(answer.Body), answer.Header["X-Answer"], err))
		default:
			r.After = record.Raw(append([]byte(p.settings.Prefix), raw...))
		}
	}
	return nil
}
