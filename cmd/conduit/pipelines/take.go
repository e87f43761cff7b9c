package pipelines

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/dryrun"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/cmd/conduit/cli"
)

// errTaken ends the inspection that takes records.
var errTaken = errors.New("taken enough")

// takeRecords takes the next records that the source reads in the running agent.
func takeRecords(ctx context.Context, p *cli.Program, c config.Config, address string, a *dryRun) error {
	pipeline, source, err := dryrun.Choose(a.DryRunRequest)
	if err != nil {
		return err
	}
	r, err := p.Dial(c, address)
	if err != nil {
		return err
	}
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	err = r.Inspect(ctx, pipeline.ID+":"+source, nil, func(m client.Message) error {
		if len(m.Result) == 0 {
			return nil // some were left out
		}
		text, err := fromInspected(m.Result)
		if err != nil {
			return fmt.Errorf("cannot read a record of the inspector: %w", err)
		}
		if a.Records = append(a.Records, text); len(a.Records) >= a.take {
			return errTaken
		}
		return nil
	})
	if errors.Is(err, errTaken) {
		return nil
	}
	return r.Explain(err)
}

// fromInspected returns a record as the file destination writes it.
func fromInspected(text []byte) (json.RawMessage, error) {
	var in rest.InspectedRecord
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // integers stay exact
	if err := d.Decode(&in); err != nil {
		return nil, err
	}
	data := func(d *rest.InspectedData) any {
		switch {
		case d == nil:
			return nil
		case d.StructuredData != nil:
			return d.StructuredData
		}
		return append([]byte{}, d.RawData...)
	}
	return json.Marshal(map[string]any{
		"position":  in.Position,
		"operation": strings.ToLower(strings.TrimPrefix(string(in.Operation), "OPERATION_")),
		"metadata":  in.Metadata,
		"key":       data(in.Key),
		"payload":   map[string]any{"before": data(in.Payload.Before), "after": data(in.Payload.After)},
	})
}
