package builtin_test

import (
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin"
)

// withServers is the directory of the connector tests with real servers.
const withServers = "../../agent/agenttest/campaign/connectors/"

// badItems lists, for each source, the tests with one bad item among valid ones: the valid ones are read, and the bad
// one becomes a record with its bytes, or is skipped and named in the status of the source.
var badItems = map[string][]string{
	"exec": {"exec/TestBadLines"},
	"file": {"file/TestOneBadFileAmongSeveral", "file/TestDamagedInTheMiddle", "file/TestEndlessLine",
		"file/TestHoles"},
	"generator":  {}, // generates its own items
	"http":       {"http/TestPollBadItems", "../processor/TestLargeElements"},
	"journald":   {"journald/TestBadItems"},
	"kafka":      {withServers + "kafka/TestBadItems"},
	"mqtt":       {withServers + "mqtt/TestBadItems"},
	"mysql":      {"mysql/TestBadValues"},
	"nats":       {withServers + "nats/TestBadItems"},
	"otlp":       {"otlp/TestSourcePartialSuccess"},
	"postgres":   {"postgres/pg/TestBadValues"},
	"prometheus": {"prometheus/TestReceivePartial", "prometheus/TestScrapeBad"},
	"redis":      {withServers + "redis/TestBadItems"},
	"s3":         {withServers + "s3/TestOneBadObject"},
	"socket":     {"socket/TestFraming", "socket/TestHostile"},
	"spool":      {"../spoollog/TestSkipsDamage"},
	"sqlite":     {"sqlite/TestBadItems"},
	"syslog":     {"syslog/TestFraming", "syslog/TestMessages"},
	"websocket":  {"websocket/TestSourceSkipsLong", "websocket/TestSourceDisconnectsLong"},
}

// TestBadItems fails for a source without a test for bad items.
func TestBadItems(t *testing.T) {
	for _, c := range builtin.All() {
		if c.NewSource == nil {
			continue
		}
		tests, listed := badItems[c.Name]
		if !listed {
			t.Errorf("source %s: what does it do when one item cannot be read? Write a test, and name it in badItems",
				c.Name)
		}
		for _, test := range tests {
			dir, name := filepath.Split(test)
			if !hasTest(t, filepath.Join("plugins/builtin", dir), `(?m)^func `+name+`\(`) {
				t.Errorf("source %s: there is no test %s", c.Name, test)
			}
		}
	}
}
