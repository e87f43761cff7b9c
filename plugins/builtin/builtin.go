// Package builtin lists the connectors of the full binary. They use only package sdk, like any other connector.
package builtin

import (
	"github.com/conduit-agent/conduit/plugins/builtin/datadog"
	"github.com/conduit-agent/conduit/plugins/builtin/elasticsearch"
	"github.com/conduit-agent/conduit/plugins/builtin/exec"
	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/builtin/generator"
	"github.com/conduit-agent/conduit/plugins/builtin/http"
	"github.com/conduit-agent/conduit/plugins/builtin/influxdb"
	"github.com/conduit-agent/conduit/plugins/builtin/journald"
	"github.com/conduit-agent/conduit/plugins/builtin/kafka"
	"github.com/conduit-agent/conduit/plugins/builtin/log"
	"github.com/conduit-agent/conduit/plugins/builtin/loki"
	"github.com/conduit-agent/conduit/plugins/builtin/mqtt"
	"github.com/conduit-agent/conduit/plugins/builtin/mysql"
	"github.com/conduit-agent/conduit/plugins/builtin/nats"
	"github.com/conduit-agent/conduit/plugins/builtin/otlp"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres"
	"github.com/conduit-agent/conduit/plugins/builtin/prometheus"
	"github.com/conduit-agent/conduit/plugins/builtin/redis"
	"github.com/conduit-agent/conduit/plugins/builtin/s3"
	"github.com/conduit-agent/conduit/plugins/builtin/socket"
	"github.com/conduit-agent/conduit/plugins/builtin/splunk"
	"github.com/conduit-agent/conduit/plugins/builtin/spool"
	"github.com/conduit-agent/conduit/plugins/builtin/sqlite"
	"github.com/conduit-agent/conduit/plugins/builtin/syslog"
	"github.com/conduit-agent/conduit/plugins/builtin/websocket"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

// All returns the connectors, sorted by name. exec is disabled.
func All() []sdk.Connector { return Connectors(exec.Options{}) }

// Connectors returns the connectors, sorted by name. o configures exec.
func Connectors(o exec.Options) []sdk.Connector {
	return []sdk.Connector{
		datadog.Connector(),
		elasticsearch.Connector(),
		exec.Connector(o),
		file.Connector(zstd.Codec{}),
		generator.Connector(),
		http.Connector(),
		influxdb.Connector(),
		journald.Connector(),
		kafka.Connector(),
		log.Connector(),
		loki.Connector(),
		mqtt.Connector(),
		mysql.Connector(),
		nats.Connector(),
		otlp.Connector(),
		postgres.Connector(),
		prometheus.Connector(),
		redis.Connector(),
		s3.Connector(),
		socket.Connector(),
		splunk.Connector(),
		spool.Connector(),
		sqlite.Connector(),
		syslog.Connector(),
		websocket.Connector(),
	}
}
