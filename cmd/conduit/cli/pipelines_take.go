package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/dryrun"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/plugins/record"
)

// errTaken ends the inspection after enough records.
var errTaken = errors.New("taken enough")

// takeRecords takes the next records that the source reads in the running agent.
func takeRecords(ctx context.Context, p *Program, c config.Config, address string, a *dryRun) error {
	pipeline, source, err := dryrun.Choose(a.DryRunRequest)
	if err != nil {
		return err
	}
	r, err := p.Dial(c, address)
	if err != nil {
		return err
	}
	ctx, stop := UntilSignal(ctx)
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

// fromInspected returns a record of the inspector in the form of a dry run.
func fromInspected(text []byte) (json.RawMessage, error) {
	r, err := record.ParseInspectJSON(text)
	if err != nil {
		return nil, err
	}
	return record.AppendReadable(nil, &r)
}
