//go:build !wasip1

package wasmguest

import (
	"errors"
	"fmt"
	"os"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Serve runs the processor for the host that started the module. It returns when the host has no more commands. In a
// program that is not a module it ends the program.
func Serve(plugin sdk.ProcessorPlugin) {
	fmt.Fprintf(os.Stderr, "%s is a processor: build it with GOOS=wasip1 GOARCH=wasm.\n", plugin.Name)
	os.Exit(1)
}

// HTTP sends a request through the host. A processor can reach only the servers named in its setting sdk.egress.allow.
// In a program that is not a module HTTP fails.
func HTTP(Request) (Response, error) {
	return Response{}, errors.New("cannot send the request: this program is not a WebAssembly module")
}
