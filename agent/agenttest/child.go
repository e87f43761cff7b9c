package agenttest

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Child makes the test binary another program. If the environment variable is set, Child calls run with its value and a
// context that ends with SIGTERM, and then ends the process. A TestMain calls it first.
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
