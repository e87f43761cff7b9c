//go:build minimal

package javascript

import (
	"context"
	"errors"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// absent stands for the processor in a build without a JavaScript engine.
type absent struct{ sdk.ProcessorBase }

func newProcessor() sdk.Processor { return absent{} }

func (absent) Parameters() sdk.Parameters {
	unknown := sdk.Parameter{Description: "Not known: this build has no JavaScript."}
	return sdk.Parameters{"*": unknown, "*.*": unknown}
}

func (absent) Configure(context.Context, map[string]string) error { return errAbsent }

func (absent) Process(context.Context, *sdk.ProcessBatch) error { return errAbsent }

var errAbsent = errors.New("this build has no JavaScript: it was built with -tags minimal")
