package cli

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/api/rest"
)

// FollowedDirectory returns the directory of the pipeline files that the agent follows, "" when it is unknown: for
// example, the agent is on another machine, or belongs to another user.
func (r *Remote) FollowedDirectory(ctx context.Context) string {
	a, err := r.Client.Agent(ctx)
	if err != nil || !OnThisMachine(&a) {
		return ""
	}
	for _, s := range a.Settings {
		if s.Name != "pipelines.path" {
			continue
		}
		if filepath.IsAbs(s.Value) {
			return filepath.Clean(s.Value)
		}
		if started, err := os.Readlink(procDir(a.PID) + "/cwd"); err == nil {
			return filepath.Join(started, s.Value)
		}
	}
	return ""
}

// OnThisMachine reports whether the agent is a process of this machine.
func OnThisMachine(a *rest.Agent) bool {
	name, err := os.Hostname()
	if err != nil || name != a.Host {
		return false
	}
	_, err = os.Stat(procDir(a.PID))
	return err == nil
}

func procDir(pid int) string { return "/proc/" + strconv.Itoa(pid) }

// FollowsAnother reports whether there is a directory of pipeline files here, and the agent follows another one.
func FollowsAnother(follows, here string) bool {
	there, err := os.Stat(follows)
	if follows == "" || err != nil {
		return false
	}
	info, err := os.Stat(here)
	return err == nil && info.IsDir() && !os.SameFile(info, there)
}

// RelativeToHere returns path relative to the current directory, if it is inside.
func RelativeToHere(path string) string {
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(dir, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return path
	}
	return rel
}
