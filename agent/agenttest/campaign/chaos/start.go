package chaos

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// Starts returns the valid values of StartVariable, sorted.
func Starts() []string {
	return slices.Sorted(maps.Keys(merged(starts, afterReady)))
}

func merged(a, b map[string]func()) map[string]func() {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// starts are actions before the process reports that it is ready.
var starts = map[string]func(){
	"slow":    waitForFile,
	"silent":  func() { select {} },
	"garbage": func() { fmt.Print("\x1b[31mGIF89a\x00\xff\xfe|||\n"); select {} },
	"endless line": func() {
		for {
			_, _ = os.Stdout.Write(bytes.Repeat([]byte("x"), 64<<10))
		}
	},
	"crash":      func() { fmt.Fprintln(os.Stderr, "panic: no licence"); os.Exit(2) },
	"elsewhere":  func() { sayReady("tcp", "192.0.2.1:80"); select {} },
	"own socket": func() { sayReady("unix", "/tmp/somewhere-else"); select {} },
	"child":      startChild,
}

// startChild starts a process that outlives this one unless it is killed.
func startChild() {
	child := exec.Command("sleep", "600")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		panic(err)
	}
	fmt.Fprintf(os.Stderr, "[INFO] child %d\n", child.Process.Pid)
}

// flood is the number of bytes that the floods write.
const flood = 4 << 20

// afterReady are actions after the process reports that it is ready.
var afterReady = map[string]func(){
	"stdout flood": func() { pour(os.Stdout, "x") },
	"stderr flood": func() { pour(os.Stderr, "x") },
	"forged logs": func() {
		fmt.Fprintln(os.Stderr,
			`{"@level":"info","@message":"stopped","component":"agent","pipeline_id":"other","connector_id":"other"}`)
		fmt.Fprintln(os.Stderr, `{"@level":7,"@message":{"a":1},"@timestamp":[]}`)
		fmt.Fprintln(os.Stderr, "\x1b[2J\x1b[1;1Htime=now level=ERROR msg=forged\r\x07")
	},
}

// pour writes a long line and creates a file once all of it has been accepted.
func pour(to *os.File, text string) {
	line := bytes.Repeat([]byte(text), 64<<10)
	for written := 0; written < flood; written += len(line) {
		if _, err := to.Write(line); err != nil {
			return
		}
	}
	if path := os.Getenv(DoneVariable); path != "" {
		_ = os.WriteFile(path, nil, 0o600)
	}
}

// waitForFile returns when the test creates the file.
func waitForFile() {
	fmt.Fprintln(os.Stderr, "chaos waits")
	wait.Until(context.Background(), func() bool {
		_, err := os.Stat(os.Getenv(GoVariable))
		return err == nil
	})
}

// GoVariable is the environment variable with the path of the file that a slow start waits for.
const GoVariable = "CONDUIT_CHAOS_GO"

// DoneVariable is the environment variable with the path of the file that is created when a flood is over.
const DoneVariable = "CONDUIT_CHAOS_DONE"
