package agenttest

import (
	"net"
	"sync/atomic"
	"testing"
)

// UnreachableSources are settings of sources whose system is at %s, by plugin.
var UnreachableSources = map[string]string{
	"http":      `url: "http://%s/", pollingPeriod: 100ms`,
	"kafka":     `servers: "%s", topics: t`,
	"mqtt":      `url: "mqtt://%s", topics: t`,
	"mysql":     `address: "%s", database: d, user: u, tables: t`,
	"nats":      `url: "nats://%s", subjects: s, type: core`,
	"postgres":  `url: "postgres://u:p@%s/d", tables: t`,
	"redis":     `url: "redis://%s/0", key: k`,
	"websocket": `url: "ws://%s"`,
	"s3":        `aws.bucket: b, aws.region: r, aws.endpoint: "http://%s", aws.accessKeyId: a, aws.secretAccessKey: s`,
	"socket":    `address: "tcp://%s", mode: connect`,
}

// EndingAll returns an address that accepts connections and closes them at once, and a function that returns their
// number.
func EndingAll(t *testing.T) (address string, count func() int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var taken atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			taken.Add(1)
			_ = c.Close()
		}
	}()
	return l.Addr().String(), func() int { return int(taken.Load()) }
}
