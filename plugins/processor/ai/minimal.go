//go:build minimal

package ai

import (
	"github.com/conduit-agent/conduit/plugins/processor/absent"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

const thing = "processors that ask language models"

func newOllama() sdk.Processor     { return absent.New(thing) }
func newTextgen() sdk.Processor    { return absent.New(thing) }
func newEmbeddings() sdk.Processor { return absent.New(thing) }
func newCommand() sdk.Processor    { return absent.New(thing) }
func newEmbed() sdk.Processor      { return absent.New(thing) }
func newRerank() sdk.Processor     { return absent.New(thing) }
