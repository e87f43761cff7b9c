// Package absent replaces processors that a build leaves out.
package absent

import (
	"context"
	"errors"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// New returns a processor that accepts every setting, and whose Configure fails because a minimal build does not have
// thing.
func New(thing string) sdk.Processor { return processor{thing: thing} }

type processor struct {
	sdk.ProcessorBase
	thing string
}

func (p processor) err() error {
	return errors.New("this build has no " + p.thing + ": it was built with -tags minimal")
}

// Parameters implements sdk.Processor.
func (p processor) Parameters() sdk.Parameters {
	unknown := sdk.Parameter{Description: "Not known: this build has no " + p.thing + "."}
	return sdk.Parameters{"*": unknown, "*.*": unknown}
}

// Configure implements sdk.Processor.
func (p processor) Configure(context.Context, map[string]string) error { return p.err() }

// Process implements sdk.Processor.
func (p processor) Process(context.Context, *sdk.ProcessBatch) error { return p.err() }
