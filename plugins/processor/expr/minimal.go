//go:build minimal

package expr

import (
	"context"
	"errors"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// absent stands for a processor in a build without expressions.
type absent struct{ sdk.ProcessorBase }

func newFilter() sdk.Processor { return absent{} }
func newMapper() sdk.Processor { return absent{} }

func (absent) Parameters() sdk.Parameters {
	unknown := sdk.Parameter{Description: "Not known: this build has no expressions."}
	return sdk.Parameters{"*": unknown, "*.*": unknown}
}

func (absent) Configure(context.Context, map[string]string) error { return errAbsent }

func (absent) Process(context.Context, *sdk.ProcessBatch) error { return errAbsent }

var errAbsent = errors.New("this build has no expressions: it was built with -tags minimal")
