package processor_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/wasm"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Code of endless guests.
const (
	endlessLoop = "\x03\x40\x0c\x00\x0b"
	callOther   = "\x10\x03" // calls function 3, which returns
)

// endlessModule returns a module that runs the code begin, answers two commands with the specification of a processor,
// and runs the code end when it has the third command. start is the section of the start function.
func endlessModule(start, begin, end string) string {
	const answer = "\x12\x03" + "\x0a\x01x" // its name is x
	section := func(id byte, content string) string { return string([]byte{id, byte(len(content))}) + content }
	function := func(code string) string {
		code = "\x00" + code + "\x0b" // no variables
		return string([]byte{byte(len(code))}) + code
	}
	const (
		// if command_request(32, 1024) < 0 { return }
		request = "\x41\x20\x41\x80\x08\x10\x00" + "\x41\x00\x48\x04\x40\x0f\x0b"
		// drop(command_response(0, len(answer)))
		respond = "\x41\x00\x41\x05\x10\x01\x1a"
	)
	return "\x00asm\x01\x00\x00\x00" +
		section(1, "\x02"+"\x60\x02\x7f\x7f\x01\x7f"+"\x60\x00\x00") + // types: (i32, i32) -> i32, () -> ()
		section(2, "\x02"+"\x07conduit\x0fcommand_request\x00\x00"+"\x07conduit\x10command_response\x00\x00") +
		section(3, "\x03\x01\x01\x01") + // functions 2 to 4
		section(5, "\x01\x00\x01") + // a page of memory
		section(7, "\x02"+"\x06_start\x00\x02"+"\x06memory\x02\x00") + start +
		section(10, "\x03"+function(begin+request+respond+request+respond+request+end)+function("")+
			function(endlessLoop)) +
		section(11, "\x01\x00\x41\x00\x0b"+"\x05"+answer)
}

// loadEndless returns the modules of a directory with this module.
func loadEndless(t *testing.T, module string, specify time.Duration) *wasm.Modules {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.wasm")
	err := os.WriteFile(path, []byte(module), 0o600)
	if err == nil {
		err = os.Chtimes(path, time.Now(), time.Now().Add(-time.Hour)) // an older file is complete
	}
	if err != nil {
		t.Fatal(err)
	}
	m := wasm.New(wasm.Options{Dir: filepath.Dir(path), SpecifyTimeout: specify})
	t.Cleanup(func() {
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	m.Rescan(t.Context())
	return m
}

// Wherever a guest never returns, it is ended at the time limit, and each record gets another guest.
func TestEndlessGuests(t *testing.T) {
	const late = "it took longer than 5ms (processors.timeout)"
	for name, c := range map[string]struct{ end, want string }{
		"a loop":                             {endlessLoop, late},
		"a loop with a condition":            {"\x03\x40\x41\x01\x0d\x00\x0b", late},
		"a loop with a table of labels":      {"\x03\x40\x41\x00\x0e\x00\x00\x0b", late},
		"a loop in a loop":                   {"\x03\x40\x03\x40\x0c\x01\x0b\x0b", late},
		"a loop with calls":                  {"\x03\x40" + callOther + "\x0c\x00\x0b", late},
		"a loop that grows the memory":       {"\x03\x40\x41\x01\x40\x00\x1a\x0c\x00\x0b", late},
		"a loop with failing host calls":     {"\x03\x40\x41\x7f\x41\x7f\x10\x01\x1a\x0c\x00\x0b", late},
		"a loop that waits for more to do":   {"\x03\x40\x41\x00\x41\x00\x10\x00\x1a\x0c\x00\x0b", late},
		"an end without an answer":           {"", "it returned"},
		"an instruction that ends the guest": {"\x00", "unreachable"},
	} {
		m := loadEndless(t, endlessModule("", "", c.end), time.Minute)
		if len(m.Plugins()) != 1 {
			t.Fatalf("%s: problems are %+v", name, m.Problems())
		}
		limit := 5 * time.Millisecond
		if c.want != late {
			limit = time.Minute
		}
		p := m.Plugins()[0].New()
		ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: slog.New(slog.DiscardHandler), TimeLimit: limit})
		if err := p.Configure(ctx, nil); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := p.Open(ctx); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b := sdk.NewProcessBatch(nil, make([]record.Record, 2), nil)
		if err := p.Process(ctx, b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i, fate := range b.Fates() {
			if fate.Kind != sdk.Refused || !strings.Contains(fate.Err.Error(), c.want) {
				t.Errorf("%s: fate of %d is %+v, want %q", name, i, fate, c.want)
			}
		}
		if err := p.Teardown(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A module that never returns from its instantiation or from Specification provides no processor.
func TestEndlessSpecifications(t *testing.T) {
	for name, module := range map[string]string{
		"in its start section":        endlessModule("\x08\x01\x04", "", ""),
		"before it asks for commands": endlessModule("", endlessLoop, ""),
	} {
		m := loadEndless(t, module, 10*time.Millisecond)
		if p := m.Problems(); len(p) != 1 || !strings.Contains(p[0].Reason, "deadline exceeded") {
			t.Errorf("%s: problems are %+v", name, p)
		}
	}
}

// An inspection that is interrupted decides nothing about the file, and is repeated.
func TestInterruptedInspection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.wasm")
	write := func(module string) {
		err := os.WriteFile(path, []byte(module), 0o600)
		if err == nil {
			err = os.Chtimes(path, time.Now(), time.Now().Add(-time.Hour)) // an older file is complete
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(endlessModule("", endlessLoop, ""))
	m := wasm.New(wasm.Options{Dir: filepath.Dir(path), SpecifyTimeout: time.Minute})
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	m.Rescan(ctx)
	if p := m.Problems(); len(p) > 0 {
		t.Errorf("problems after an interrupted inspection are %+v", p)
	}
	if err := m.Await(ctx); err == nil {
		t.Error("the directory counts as scanned")
	}
	write(endlessModule("", "", ""))
	m.Rescan(t.Context())
	if err := m.Await(t.Context()); err != nil || len(m.Plugins()) != 1 {
		t.Errorf("the next inspection finds %d processors, problems %+v, and waits %v", len(m.Plugins()), m.Problems(), err)
	}
}
