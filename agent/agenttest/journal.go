package agenttest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// journal is a source that records its calls in the file that JOURNAL names. A file next to it named fail-CALL makes
// the call fail, die-CALL ends the process.
type journal struct {
	sdk.SourceBase
	n int
}

func (j *journal) note(call string, settings ...map[string]string) error {
	line := os.Getenv("CONDUIT_CONNECTOR_ID") + " " + call
	for _, s := range settings {
		line += " v=" + s["v"]
	}
	f, err := os.OpenFile(os.Getenv("JOURNAL"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, line); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(f.Name()), "die-"+call)); err == nil {
		os.Exit(3)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(f.Name()), "fail-"+call)); err == nil {
		return fmt.Errorf("%s was made to fail", call)
	}
	return nil
}

func (j *journal) Parameters() sdk.Parameters {
	return sdk.Parameters{"v": {Type: sdk.TypeString}}
}

func (j *journal) Configure(_ context.Context, s map[string]string) error {
	return j.note("Configure", s)
}

func (j *journal) LifecycleOnCreated(_ context.Context, s map[string]string) error {
	return j.note("OnCreated", s)
}

func (j *journal) LifecycleOnUpdated(_ context.Context, before, after map[string]string) error {
	return j.note("OnUpdated", before, after)
}

func (j *journal) LifecycleOnDeleted(_ context.Context, s map[string]string) error {
	return j.note("OnDeleted", s)
}

func (j *journal) Open(_ context.Context, pos record.Position) error {
	j.n, _ = strconv.Atoi(string(pos))
	return j.note("Open")
}

func (j *journal) Teardown(context.Context) error { return j.note("Teardown") }

func (j *journal) Read(ctx context.Context) ([]record.Record, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Millisecond):
	}
	j.n++
	return []record.Record{{Position: record.Position(strconv.Itoa(j.n)), Operation: record.OperationCreate,
		After: record.Raw([]byte("x"))}}, nil
}

// Journal reads the journal of an agent's directory.
type Journal struct {
	*testing.T
	File string
	read int
}

// Next returns the calls since the previous Next, without the leading id.
func (l *Journal) Next() string {
	l.Helper()
	b, err := os.ReadFile(l.File)
	if err != nil && !os.IsNotExist(err) {
		l.Fatal(err)
	}
	var calls []string
	for line := range strings.Lines(string(b[l.read:])) {
		call, ok := strings.CutPrefix(strings.TrimSpace(line), "p:src ")
		if !ok {
			l.Errorf("unexpected call %q", line)
		}
		calls = append(calls, call)
	}
	l.read = len(b)
	return strings.Join(calls, ", ")
}

// Want checks the calls since the previous Next or Want.
func (l *Journal) Want(calls string) {
	l.Helper()
	if got := l.Next(); got != calls {
		l.Errorf("calls  %s\nwanted %s", got, calls)
	}
}

// While runs f while the file exists.
func While(t *testing.T, path string, f func()) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
