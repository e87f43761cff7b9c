package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Countdown is a connector with a source.
var Countdown = sdk.Connector{
	Name:      "countdown",
	Summary:   "Counts down.",
	Version:   "v1.0.0",
	Author:    "you",
	NewSource: func() sdk.Source { return &countdown{} },
}

type countdown struct {
	sdk.SourceBase
	settings struct {
		From  int           `json:"from" validate:"required,gt=0" desc:"The number to begin with."`
		Pause time.Duration `json:"pause" default:"1s" desc:"Time between two numbers."`
	}
	next int
}

func (c *countdown) Parameters() sdk.Parameters { return sdk.ParametersOf(c.settings) }

func (c *countdown) Configure(_ context.Context, settings map[string]string) error {
	return sdk.Decode(settings, &c.settings)
}

func (c *countdown) Open(_ context.Context, pos record.Position) (err error) {
	c.next = c.settings.From
	if len(pos) > 0 { // resume after the last record
		c.next, err = strconv.Atoi(string(pos))
		c.next--
	}
	return err
}

func (c *countdown) Read(ctx context.Context) ([]record.Record, error) {
	if c.next == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	select {
	case <-time.After(c.settings.Pause):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	n := strconv.Itoa(c.next)
	c.next--
	return []record.Record{{
		Position: record.Position(n), Operation: record.OperationCreate, After: record.Raw([]byte(n)),
	}}, nil
}

// Printer is a connector with a destination.
var Printer = sdk.Connector{
	Name:           "printer",
	Summary:        "Prints records.",
	Version:        "v1.0.0",
	Author:         "you",
	NewDestination: func() sdk.Destination { return &printer{} },
}

type printer struct {
	sdk.DestinationBase
	settings struct {
		Prefix string `json:"prefix" desc:"What to print before each record."`
	}
	format sdk.Format
	out    io.Writer
}

func (p *printer) Parameters() sdk.Parameters { return sdk.ParametersOf(p.settings) }

func (p *printer) Configure(ctx context.Context, settings map[string]string) error {
	p.format = sdk.RecordFormat(ctx)
	return sdk.Decode(settings, &p.settings)
}

func (p *printer) Open(context.Context) error {
	p.out = os.Stdout
	return nil
}

func (p *printer) Write(_ context.Context, records []record.Record) (int, error) {
	for i := range records {
		line, err := p.format([]byte(p.settings.Prefix), &records[i])
		if err != nil {
			return i, err // record i is refused, those before it are written
		}
		if _, err := p.out.Write(append(line, '\n')); err != nil {
			return i, sdk.Unavailable(err) // no record's fault: it is written later
		}
	}
	return len(records), nil
}

func Example() {
	ctx := context.Background()
	source := sdk.Standard(Countdown).NewSource()
	destination := sdk.Standard(Printer).NewDestination()
	must(source.Configure(ctx, map[string]string{"from": "3", "pause": "1ms", "sdk.batch.size": "2"}))
	must(destination.Configure(ctx, map[string]string{
		"prefix": "T-", "sdk.record.format": "template", "sdk.record.format.options": "{{ .Payload.After }}…",
	}))
	must(source.Open(ctx, record.Position("3")))
	must(destination.Open(ctx))
	records, err := source.Read(ctx)
	must(err)
	n, err := destination.Write(ctx, records)
	must(err)
	fmt.Println(n, "records")
	must(source.Teardown(ctx))
	must(destination.Teardown(ctx))
	// Output:
	// T-2…
	// T-1…
	// 2 records
}

type addHost struct {
	sdk.ProcessorBase
	settings struct {
		Host string `json:"host" validate:"required" desc:"The value of the field host."`
	}
}

func (a *addHost) Parameters() sdk.Parameters { return sdk.ParametersOf(a.settings) }

func (a *addHost) Configure(_ context.Context, settings map[string]string) error {
	return sdk.Decode(settings, &a.settings)
}

func (a *addHost) Process(_ context.Context, b *sdk.ProcessBatch) error {
	for i := range b.Len() {
		if fields, ok := b.Record(i).After.Structured(); ok { // Raw returns the bytes of raw data
			fields["host"] = a.settings.Host
		} else {
			b.Refuse(i, errors.New("the payload is not structured"))
		}
	}
	return nil
}

func ExampleProcessor() {
	ctx := context.Background()
	var p sdk.Processor = &addHost{}
	must(p.Configure(ctx, map[string]string{"host": "web1"}))
	b := sdk.NewProcessBatch(nil, []record.Record{
		{After: record.Structured(map[string]any{"id": 1})},
		{After: record.Raw([]byte("text"))},
	}, nil)
	must(p.Process(ctx, b))
	fields, _ := b.Record(0).After.Structured()
	fmt.Println(fields)
	fmt.Println(b.Fates()[1].Err)
	// Output:
	// map[host:web1 id:1]
	// the payload is not structured
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
