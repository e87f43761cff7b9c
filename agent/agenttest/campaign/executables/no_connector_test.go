package executables_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
)

// libraries are the libraries of each connector.
var libraries = map[string]string{
	"http":     "plugins/builtin/http",
	"journald": "plugins/builtin/journald",
	"kafka":    "github.com/twmb/franz-go",
	"mqtt":     "github.com/eclipse/paho",
	"mysql":    "github.com/go-sql-driver/mysql",
	"nats":     "plugins/builtin/nats",
	"postgres": "github.com/jackc/pgx",
	"redis":    "github.com/gomodule/redigo",
	"s3":       "github.com/minio/minio-go",
	"sqlite":   "plugins/builtin/sqlite",
	"syslog":   "plugins/builtin/syslog",
}

// TestBuildWithoutConnectors checks that a build without a connector does not contain its libraries.
func TestBuildWithoutConnectors(t *testing.T) {
	load.Parallel(t, load.CPU)
	deps := func(tags string) string {
		out, err := goIn(t, filepath.FromSlash("../../../.."), "list", "-deps", "-tags", tags,
			"github.com/conduit-agent/conduit/cmd/conduit")
		if err != nil {
			t.Fatalf("cannot list packages: %v\n%s", err, out)
		}
		return out
	}
	all, minimal := deps(""), deps("minimal")
	for name, library := range libraries {
		if !strings.Contains(all, library) {
			t.Errorf("the full build has no %s", name)
		}
		if strings.Contains(minimal, library) {
			t.Errorf("the minimal build has %s", library)
		}
		if strings.Contains(deps("no_"+name), library) {
			t.Errorf("a build without %s has %s", name, library)
		}
	}
}
