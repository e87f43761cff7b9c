package cli

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/peterbourgon/ff/v3/ffcli"
)

// Set with -ldflags "-X github.com/conduit-agent/conduit/cmd/conduit/cli.version=v1.2.3 -X
// github.com/conduit-agent/conduit/cmd/conduit/cli.commit=0123abc".
var version, commit string

// build describes this executable.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// Version returns the version of this executable.
func Version() string { return thisBuild().Version }

func thisBuild() build {
	b := build{Version: version, Commit: commit, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = cmp.Or(b.Version, info.Main.Version)
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Commit = cmp.Or(b.Commit, s.Value)
			}
		}
	}
	b.Version, b.Commit = cmp.Or(b.Version, "(devel)"), cmp.Or(b.Commit, "unknown")
	return b
}

func versionCommand(p *Program) *ffcli.Command {
	flags := NewFlags("version")
	asJSON := flags.Bool("json", false, "print JSON")
	return &ffcli.Command{
		Name:       "version",
		ShortUsage: "conduit version [flags]",
		ShortHelp:  "Print the version.",
		LongHelp:   "Example:\n  conduit version --json",
		FlagSet:    flags,
		Exec: func(_ context.Context, args []string) error {
			if _, err := Positional(flags, args, 0); err != nil {
				return err
			}
			b := thisBuild()
			if *asJSON {
				return p.WriteJSON(b)
			}
			fmt.Fprintf(p.Stdout, "conduit %s\ncommit  %s\ngo      %s\nos/arch %s/%s\n", b.Version, b.Commit, b.Go,
				b.OS, b.Arch)
			return nil
		},
	}
}
