//go:build linux && (amd64 || arm64)

package clock_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/clock"
)

// clockVariable, when set, makes the test binary print its clocks for each line that it reads.
const clockVariable = "CONDUIT_TEST_CLOCK_PRINTED"

func TestMain(m *testing.M) {
	if os.Getenv(clockVariable) == "" {
		os.Exit(m.Run())
	}
	begin := time.Now()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		now := time.Now()
		fmt.Println(now.UnixNano(), int64(now.Sub(begin)))
	}
}

// The wall clock of a running process is set to any time, while its monotonic clock continues unchanged.
func TestSet(t *testing.T) {
	c := clock.New(t)
	c.Set(time.Unix(1, 0))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), clockVariable+"=yes")
	cmd.Stderr = os.Stderr
	c.Join(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	began, running := time.Now(), time.Duration(0) // the process may begin before Start returns
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, ahead := range []time.Duration{time.Until(time.Unix(1, 0)), 0, time.Hour, -time.Hour,
		100 * 365 * 24 * time.Hour, time.Nanosecond} {
		c.SetAhead(ahead)
		earliest := c.Now()
		if _, err := fmt.Fprintln(in, "?"); err != nil {
			t.Fatal(err)
		}
		var wall int64
		last := running
		if _, err := fmt.Fscan(out, &wall, &running); err != nil {
			t.Fatal(err)
		}
		if at := time.Unix(0, wall); at.Before(earliest.Round(0)) || at.After(c.Now().Round(0)) {
			t.Errorf("%v ahead: the clock shows %v, want between %v and %v", ahead, at, earliest, c.Now())
		}
		if running <= last || running > time.Since(began) {
			t.Errorf("%v ahead: %v passed of the monotonic clock after %v, within %v", ahead, running, last,
				time.Since(began))
		}
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}
