package agenttest

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Child makes the test binary another program: when the environment variable is set it runs run with
// the value, whose context ends with SIGTERM, and ends the process. A TestMain calls it first.
func Child(variable string, run func(ctx context.Context, value string) error) {
	value := os.Getenv(variable)
	if value == "" {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := run(ctx, value)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
