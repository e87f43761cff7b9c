package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

var modules = suite{
	name:    "modules",
	title:   "A WebAssembly module between generator and file, raw records of four fields",
	columns: throughput.columns,
	cases: []testCase{
		guest("module of the SDK, 1 worker", "with-sdk", 1), guest("module of the SDK, 2 workers", "with-sdk", 2),
		guest("module of the contract's messages, 1 worker", "contract", 1),
		guest("module of the contract's messages, 2 workers", "contract", 2),
		passing("field.set of a constant", []string{pipeline(0, source("builtin:generator", raw), toFile("builtin", 0),
			"processors: [{id: set, plugin: field.set, settings: {field: .Metadata.foo, value: bar}}]")}),
	},
}

func guest(name, plugin string, workers int) testCase {
	return testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
		if err := b.provideModules(ctx); err != nil {
			return nil, err
		}
		processor := fmt.Sprintf("processors: [{id: guest, plugin: %s, workers: %d}]", plugin, workers)
		f, err := b.pass(ctx, []string{pipeline(0, source("builtin:generator", raw), toFile("builtin", 0), processor)},
			nil)
		return f.values(), err
	}}
}

// provideModules builds the modules once, and links their cached compiled code into the directory of the run.
func (b *bench) provideModules(ctx context.Context) error {
	dir := filepath.Join(filepath.Dir(b.dir), "modules")
	compiled := filepath.Join(filepath.Dir(b.dir), "compiled")
	for _, name := range []string{"sdk", "contract"} {
		path := filepath.Join(dir, name+".wasm")
		if _, err := os.Stat(path); err == nil {
			continue
		}
		build := exec.CommandContext(ctx, "go", "build", "-o", path,
			repository+"/plugins/processor/wasm/testdata/"+name)
		build.Env, build.Stderr = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0"), os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("cannot build module %s: %w", name, err)
		}
	}
	if err := os.MkdirAll(compiled, 0o700); err != nil {
		return err
	}
	if err := os.Symlink(compiled, b.path("conduit.db.modules")); err != nil {
		return err
	}
	return os.Symlink(dir, b.path("processors"))
}
