package standalone_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/plugins/standalone"
)

// BenchmarkExecutable measures the steps of a plugin process: specifying it, starting it for a connector, and ending
// it.
func BenchmarkExecutable(b *testing.B) {
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	c := &standalone.Client{Path: exe, Env: append(os.Environ(), versionVariable+"=v1.0.0")}
	b.Run("specify", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.Specify(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("start", func(b *testing.B) { benchmarkProcess(b, c, true) })
	b.Run("teardown", func(b *testing.B) { benchmarkProcess(b, c, false) })
}

// benchmarkProcess measures either the start of a process or its end.
func benchmarkProcess(b *testing.B, c *standalone.Client, start bool) {
	b.StopTimer()
	for range b.N {
		if start {
			b.StartTimer()
		}
		s, err := c.Source(b.Context(), "orders:db")
		b.StopTimer()
		if err != nil {
			b.Fatal(err)
		}
		for _, err := range []error{s.Configure(b.Context(), nil), s.Open(b.Context(), nil)} {
			if err != nil {
				b.Fatal(err)
			}
		}
		if !start {
			b.StartTimer()
		}
		err = s.Teardown(b.Context())
		b.StopTimer()
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkKnownExecutable measures the first scan of an agent: with an executable that it must run for its
// specification, and with one that it knows from an earlier start.
func BenchmarkKnownExecutable(b *testing.B) {
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	content, err := os.ReadFile(exe)
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	plugin := filepath.Join(dir, "connectors", "counter")
	if err := os.Mkdir(filepath.Dir(plugin), 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(plugin, content, 0o700); err != nil {
		b.Fatal(err)
	}
	for name, kept := range map[string]string{"new": "", "known": filepath.Join(dir, "specifications")} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				e := &standalone.Executables{Dir: filepath.Dir(plugin), Specifications: kept,
					Env: append(os.Environ(), versionVariable+"=v1.0.0")}
				e.Rescan(b.Context())
				if len(e.Installed()) != 1 {
					b.Fatal(e.Problems())
				}
			}
		})
	}
}
