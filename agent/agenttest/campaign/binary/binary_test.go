package binary

import (
	"context"
	"net"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/script"
	"github.com/conduit-agent/conduit/api/client"
)

// TestScripts runs each script of testdata/script with the built binary.
func TestScripts(t *testing.T) {
	bin := script.Binaries(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Setenv("CONDUIT_API_HTTP_ADDRESS", "127.0.0.1:0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": script.Exits, "eventually": script.Eventually, "address": address, "declare": declare,
		},
	})
}

// address makes the agents of the script, and their clients, use a free address.
func address(ts *testscript.TestScript, _ bool, _ []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Check(l.Close())
	ts.Setenv("CONDUIT_API_HTTP_ADDRESS", l.Addr().String())
}

// declare FILE declares the pipelines of a file over the API.
func declare(ts *testscript.TestScript, _ bool, args []string) {
	c := client.Client{URL: "http://" + ts.Getenv("CONDUIT_API_HTTP_ADDRESS")}
	_, err := c.Import(context.Background(), []byte(ts.ReadFile(args[0])), client.Live())
	ts.Check(err)
}
