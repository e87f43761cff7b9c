package main

import (
	"slices"
	"time"
)

// module is the directory of the module of campaigns.
const module = "agent/agenttest/campaign"

// Campaign is a group of tests that need servers, other programs, many kills, hours or a quiet machine.
type Campaign struct {
	Name  string
	About string   // its purpose, for the table of campaigns
	Dir   string   // of the package, from the top of the repository
	Run   string   // the tests, as for -test.run; "" is all
	Skip  string   // tests left out, as for -test.skip
	Full  []string // flags of the full run; without them tests have the sizes of the gate

	// Subjects are the code under test: packages, with "/..." those below as well, or patterns of files. The gate runs
	// the campaign when a subject or a package that it imports changes.
	Subjects []string
	Always   bool // the gate runs it after each change
	Release  bool // it builds a release: the gate runs it only if a subject is known to have changed
	FullOnly bool // the gate never runs it: it takes too long for a gate, or needs a quiet machine

	Limit time.Duration // after which a full run counts as hanging; 0 is an hour
}

// engine lists the packages in which a fault can lose or reorder the records of any connector.
var engine = []string{"agent/engine", "agent/store", "agent/deadletter", "plugins/sdk", "plugins/record"}

// clusters lists the packages that members of a cluster share.
var clusters = []string{"agent/cluster/...", "reconcile"}

// with returns more and then subjects.
func with(subjects []string, more ...string) []string { return slices.Concat(more, subjects) }

// kill returns the kill suite of a connector.
func kill(connector, tests string, subjects ...string) Campaign {
	return Campaign{
		Name: "kill-" + connector, Dir: module + "/kill", Run: "^Test(" + tests + ")(Source|Destination|Example)$",
		About: "Kills of agent and server, and cut, slow and stalled connections, while `" + connector +
			"` reads and writes: no record is lost, changed or out of order.",
		Full:     []string{"-all", "-rounds=2"},
		Subjects: with(engine, append(subjects, "plugins/builtin/"+connector+"/...")...),
	}
}

// connector returns the campaign that runs a connector against real servers.
func connector(name, about string, subjects ...string) Campaign {
	return Campaign{
		Name: name, Dir: module + "/connectors/" + name, About: about,
		Subjects: append([]string{"plugins/builtin/" + name + "/..."}, subjects...),
	}
}

// httpSinks are the packages that destinations for HTTP share.
var httpSinks = []string{"plugins/builtin/httpsink/...", "plugins/builtin/httpclient/..."}

// campaigns are all campaigns, in the order in which they run.
var campaigns = []Campaign{
	{Name: "smoke", Dir: module + "/smoke", Always: true,
		About: "The built binary runs the demo, reloads files, rejects a broken file, and loses no line to `kill -9`.",
		Full:  []string{"-kills=100"}},
	{Name: "smoke-kill", Dir: module + "/kill", Run: "^Test(PostgresSource|KafkaDestination)$", Always: true,
		About: "The kill suite with one case for PostgreSQL and one for Kafka."},

	kill("datadog", "Datadog", httpSinks...),
	kill("elasticsearch", "Elasticsearch", httpSinks...),
	kill("exec", "Exec"),
	kill("file", "Files?|CompressedFiles|RawLane|Containers|Isolated", "agent/isolate/..."),
	kill("http", "HTTP(Server|Poll)?", "plugins/builtin/httpclient/..."),
	kill("influxdb", "InfluxDB", httpSinks...),
	kill("journald", "Journald"),
	kill("kafka", "Kafka(ExactlyOnce|Destination)?"),
	kill("loki", "Loki", httpSinks...),
	kill("mqtt", "MQTT"),
	kill("mysql", "MySQL(Source|Created)?", "plugins/builtin/sqlsink/..."),
	kill("nats", "NATS"),
	kill("otlp", "OTLP(JSON)?"),
	kill("postgres", "Postgres(Created|Destination)?", "plugins/builtin/sqlsink/..."),
	kill("prometheus", "Prometheus", append(httpSinks, "plugins/builtin/httpserver/...")...),
	kill("redis", "Redis(Stream|List|Keys)?"),
	kill("s3", "S3"),
	kill("splunk", "Splunk", httpSinks...),
	kill("sqlite", "SQLite(Created|Modes|Columns)?", "plugins/builtin/sqlsink/..."),
	kill("socket", "Socket(Clients)?", "plugins/builtin/sockets/..."),
	kill("syslog", "Syslog", "plugins/builtin/sockets/..."),
	kill("websocket", "WebSocket|WebSocketFeed", "plugins/builtin/httpclient/..."),
	{Name: "kill-stateful", Dir: module + "/kill", Run: "^Test(Stateful|Judge)$", Full: []string{"-all", "-rounds=25"},
		Limit: 4 * time.Hour,
		About: "Kills with stateful processors, in front of destinations and dead letters: " +
			"their state never includes a record that was not written.",
		Subjects: with(engine, "plugins/processor/...")},

	connector("elasticsearch", "`elasticsearch` with VictoriaLogs.", httpSinks...),
	connector("journald", "`journald` with a real journal."),
	connector("kafka", "`kafka` with librdkafka's brokers and clients, SASL and TLS."),
	connector("mqtt", "`mqtt` with Mosquitto."),
	connector("mysql", "`mysql` with MariaDB and MySQL.", "plugins/builtin/sqlsink/..."),
	connector("nats", "`nats` with NATS servers."),
	connector("otlp", "`otlp` and the agent's own telemetry with the OpenTelemetry Collector, and `otlp` with the Go SDK "+
		"of OpenTelemetry.", "agent/telemetry/otlp"),
	connector("postgres", "`postgres` with every PostgreSQL that is installed.", "plugins/builtin/sqlsink/..."),
	connector("redis", "`redis` with Redis."),
	connector("s3", "`s3` with an S3 gateway, and its Parquet files with DuckDB and Arrow."),
	connector("sqlite", "`sqlite` next to other programs that use the same database."),
	{Name: "victoria", Dir: module + "/connectors/victoria",
		About: "`loki` and `datadog` with VictoriaLogs, `influxdb` with VictoriaMetrics and InfluxDB, and `prometheus` " +
			"with VictoriaMetrics and Prometheus.",
		Subjects: append(httpSinks, "plugins/builtin/datadog/...", "plugins/builtin/influxdb/...",
			"plugins/builtin/loki/...", "plugins/builtin/prometheus/...")},
	connector("syslog", "`syslog` with rsyslog, and with a server that drops off the network.",
		"plugins/builtin/sockets/..."),

	{
		Name: "executables", Dir: module + "/executables", Skip: "^TestEdge",
		Full: []string{"-every-connector"}, Limit: 2 * time.Hour,
		About: "Connectors as executables, in Go and in Python: well and badly behaved, and in the sandbox.",
		Subjects: []string{"plugins", "plugins/standalone", "plugins/wire/...", "plugins/sandbox",
			"plugins/plugintest/..."}},
	{Name: "edge", Dir: module + "/executables", Run: "^TestEdge",
		About:    "The small binary `conduit-edge`: its contents, a pipeline, and its errors for other plugins.",
		Subjects: []string{"cmd/conduit-edge", "cmd/conduit-edge/*", "agent/catalog", "agent/store", ".ci/build"}},
	{Name: "plugins", Dir: module + "/plugins", Full: []string{"-pipelines=50", "-changes=10"},
		About: "An agent with connectors as executables and processors as WebAssembly modules.",
		Subjects: []string{"plugins", "plugins/standalone", "plugins/wire/...", "plugins/processor/wasm",
			"agent/runner"}},
	{Name: "authors", Dir: module + "/authors", Limit: 2 * time.Hour,
		About: "The templates for a connector and a processor, also without a network, and a connector in Python.",
		Subjects: []string{"cmd/conduit/tools/...", "plugins/example/...", "plugins/sdk/...", "plugins/wire/...",
			".ci/modules"}},
	{Name: "processors", Dir: module + "/processors",
		About:    "Processors with hostile and with large records, and builds without some processors.",
		Subjects: []string{"plugins/processor/..."}},
	{Name: "javascript", Dir: module + "/processors/javascript",
		About:    "Hostile scripts of the JavaScript processor.",
		Subjects: []string{"plugins/processor/javascript"}},
	{Name: "wasm", Dir: module + "/processors/wasm",
		About:    "WebAssembly modules that are built with Go, and hostile ones.",
		Subjects: []string{"plugins/processor/wasm/..."}},
	{Name: "javascript-natives", Dir: "plugins/processor/javascript", Run: "^TestNatives", Full: []string{"-natives=0"},
		FullOnly: true,
		About:    "Every built-in function of JavaScript with every kind of argument."},
	{Name: "javascript-hostile", Dir: "plugins/processor/javascript", Run: "^TestHostileScripts$",
		Full: []string{"-hostile=0"}, FullOnly: true,
		About: "All hostile scripts at their largest size."},
	{Name: "templates", Dir: "plugins/template", Run: "^TestDirectAccessIsTheTemplate$", Full: []string{"-every-call"},
		FullOnly: true,
		About:    "The fast path of templates and the template engine have the same output, for every call."},
	{Name: "reference", Dir: "plugins/processor",
		Run:  "^Test(ProcessorsAreTheirReference|ExpressionsAreBounded|MistakesAreFoundBefore)$",
		Full: []string{"-records=100000", "-expressions"}, FullOnly: true,
		About: "Processors against a reference implementation, with random records, and all hostile expressions."},

	{Name: "cluster", Dir: module + "/cluster",
		Run:      "^Test(Failover|APIPipelines|StopAfterOwnerDied|SimulatedClaimsAreLinearizable|Terms)$",
		About:    "Agents that share pipelines over NATS and PostgreSQL: failovers, placement, pipelines of the API.",
		Subjects: clusters},
	{Name: "cluster-postgres", Dir: module + "/cluster", Run: "^TestPostgres$",
		About:    "Agents that share pipelines over PostgreSQL.",
		Subjects: clusters},
	{Name: "cluster-all", Dir: module + "/cluster", Skip: "^Test(Failovers|ManyPipelines)$", FullOnly: true,
		Limit: 4 * time.Hour,
		Full:  []string{"-jumps=2", "-kills=3", "-seeds=10", "-refusals=400"},
		About: "A cluster with kills, drains, clock jumps, restored streams, lost leaders and promoted standbys."},
	{Name: "failovers", Dir: module + "/cluster", Run: "^TestFailovers$",
		Full: []string{"-failovers=1000", "-clusters=2", "-members=5"}, Limit: 24 * time.Hour,
		About:    "Kills and pauses of the agents and servers of a cluster while it copies lines.",
		Subjects: clusters},
	{Name: "cluster-size", Dir: module + "/cluster", Run: "^TestManyPipelines$", Limit: 4 * time.Hour,
		Full:     []string{"-many.pipelines=10000", "-many.members=5", "-many.servers=3", "-many.rest=1m"},
		About:    "Thousands of pipelines on a few agents.",
		Subjects: clusters},
	{Name: "protocol", Dir: "agent/cluster/protocol", Run: "^TestSimulation$", Full: []string{"-seeds=100000"},
		FullOnly: true, Limit: 24 * time.Hour,
		About: "A simulation of the cluster protocol."},
	{Name: "shared-letters", Dir: "agent/cluster/deadletters", Run: "^TestFaults$",
		Full:     []string{"-seeds=5", "-owners=12"},
		FullOnly: true,
		About:    "Dead letters of a cluster, with faults in its store."},
	{Name: "claims-nats", Dir: module + "/cluster/natskv",
		About:    "Claims in NATS are linearizable, survive restarts and need few rights.",
		Full:     []string{"-pipelines=10000", "-servers=3", "-rest=20s"},
		Subjects: []string{"agent/cluster/natskv", "agent/agenttest/clustertest"}},
	{Name: "claims-postgres", Dir: module + "/cluster/pgkv",
		About:    "Claims in PostgreSQL are linearizable, with poolers, restarts and promotion.",
		Subjects: []string{"agent/cluster/pgkv", "agent/agenttest/clustertest"}},

	{Name: "clock", Dir: module + "/clock", Full: []string{"-leaps=5"},
		About:    "Jumps of the system clock under a running agent.",
		Subjects: []string{"agent", "agent/engine", "reconcile"}},
	{Name: "faults", Dir: module + "/faults", Full: []string{"-places=0"}, Limit: 6 * time.Hour,
		About:    "Failing system calls of the store and of the dead letters.",
		Subjects: []string{"agent/store", "agent/deadletter", "agent/sqlitefile"}},
	{Name: "sweeps", Dir: module + "/sweeps", Full: []string{"-places=0"}, Limit: 24 * time.Hour,
		About:    "An agent is killed, or gets an error, at each system call that changes a file.",
		Subjects: with(engine, "agent", "reconcile", "plugins/builtin/file")},

	{Name: "kills", Dir: module + "/crash", Skip: "^Test(Terminations|PowerCuts)", Full: []string{"-kills=10000"},
		Limit:    24 * time.Hour,
		About:    "Kills of an agent at any moment: with files, a spool, processors and dead letters.",
		Subjects: with(engine, "agent", "plugins/builtin/file", "plugins/builtin/spool", "plugins/spoollog")},
	{Name: "terminations", Dir: module + "/crash", Run: "^TestTerminations", Full: []string{"-terminations=1000"},
		Limit:    4 * time.Hour,
		About:    "An agent is stopped with SIGTERM again and again: no record is repeated.",
		Subjects: with(engine, "agent")},
	{Name: "power-cuts", Dir: module + "/crash", Run: "^TestPowerCuts", Full: []string{"-cuts=300"},
		Limit:    4 * time.Hour,
		About:    "Power cuts of the disk of an agent.",
		Subjects: with(engine, "agent/isolate", "plugins/builtin/file", "plugins/spoollog")},
	{Name: "prove", Dir: module + "/prove", Full: []string{"-kills=10000"}, Limit: 24 * time.Hour,
		About:    "`conduit prove` confirms the guarantees, and detects violations.",
		Subjects: []string{"agent/prove", "agent/engine", "agent/store", "plugins/standalone"}},
	{Name: "filesystems", Dir: module + "/filesystems",
		About:    "Small, full, slow and mounted file systems, and the owners of files.",
		Subjects: []string{"agent/sqlitefile", "agent/maintenance", "agent/prove", "reconcile/watch"}},
	{Name: "paths", Dir: "plugins/builtin", Run: "^TestNoSettingLeadsOutside$", Full: []string{"-every-spelling"},
		FullOnly: true,
		About:    "Settings with every spelling of a forbidden path, also with environment variables that name it."},
	{Name: "hostile-peers", Dir: "plugins/builtin", Run: "^TestHostilePeers$", Full: []string{"-every-peer"},
		FullOnly: true,
		About:    "Each client of a built-in connector gets large messages of hostile servers."},
	{Name: "dead-letter-pages", Dir: module + "/deadletters", Full: []string{"-letters=1000000"},
		About:    "Listing the pages of a huge dead-letter queue is fast.",
		Subjects: []string{"agent/deadletter"}},
	{Name: "damaged-files", Dir: "agent/maintenance", Run: "^TestDamageNeverPassesForAStore$",
		Full: []string{"-damaged-pages=0"}, FullOnly: true, Limit: 4 * time.Hour,
		About: "Changed bits, zeroes and truncation in every page of a store."},
	{Name: "engine-state", Dir: "agent/engine", Run: "^TestStateIsNeverAheadOfTheData$",
		Full:     []string{"-histories=200"},
		FullOnly: true,
		About:    "A simulation of stateful processors in front of failing destinations."},
	{Name: "topologies", Dir: "agent/engine", Run: "^TestEveryTopologyMakesProgress$",
		Full:     []string{"-topologies=5000"},
		FullOnly: true,
		About:    "A simulation of random topologies: each makes progress."},
	{Name: "spool-faults", Dir: "plugins/spoollog", Run: "^Test(Faults|OpensHugeLog)$",
		Full: []string{"-faults=10000000", "-segments=3125"}, FullOnly: true, Limit: 12 * time.Hour,
		About: "A simulation of a spool with torn, short, reordered and changed writes."},
	{Name: "s3-simulated", Dir: "plugins/builtin/s3", Run: "^Test(Window|OtherPrefixes)$", Full: []string{"-seeds=20"},
		FullOnly: true,
		About:    "A simulation of listings of `s3` while objects appear late."},
	{Name: "simulations", Dir: "agent/agenttest/e2e", Run: "^TestSimulatedAgent$", Full: []string{"-histories=100000"},
		FullOnly: true, Limit: 24 * time.Hour,
		About: "A simulation of histories of pipeline files, restarts and kills."},
	{Name: "api", Dir: "agent/agenttest/e2e", Run: "^Test(AnyRequest|Readers|WritesAreLinear)",
		Full: []string{"-requests=40", "-clients=50"}, FullOnly: true,
		About: "Odd requests and concurrent writes of the API."},
	{Name: "memory", Dir: module + "/endurance", Skip: "^TestSoak", Full: []string{"-pipelines=1000", "-sharers=8"},
		Limit:    4 * time.Hour,
		About:    "The memory limit with records of 16 MiB, and limits on the demands of pipelines.",
		Subjects: with(engine, "agent/process")},
	{Name: "soak", Dir: module + "/endurance", Run: "^TestSoak", Full: []string{"-seconds=3600", "-rate=0"},
		Limit:    2 * time.Hour,
		About:    "Memory, descriptors and goroutines stay flat at full speed.",
		Subjects: with(engine, "plugins/standalone")},
	{Name: "outage", Dir: module + "/outage", Full: []string{"-outage=2m"},
		About:    "Sources whose system ends every connection connect at most 100 times per second.",
		Subjects: []string{"plugins/sdk", "plugins/peer", "reconcile"}},
	{Name: "reload", Dir: module + "/reload", Full: []string{"-changes=200", "-reloads=20", "-sequences=6"},
		Limit:    2 * time.Hour,
		About:    "Hot reload under load, with kills, with mounts, and without inotify.",
		Subjects: with(engine, "reconcile", "reconcile/watch")},
	{Name: "ui", Dir: module + "/ui", Full: []string{"-every-scheme", "-watch=30s"},
		About:    "The web interface in a browser.",
		Subjects: []string{"api/web/...", "api"}},
	{Name: "tools", Dir: module + "/tools",
		About:    "Editors, rsync, git, Prometheus, and the scripts of the documentation.",
		Subjects: []string{"reconcile/watch", "agent/telemetry", "api/README.md", "cmd/conduit/docs/DEPLOY.md"}},

	{Name: "inspector", Dir: module + "/process", About: "The inspector shows records with long lines.",
		Subjects: []string{"api/inspect", "cmd/conduit/cli"}},
	{Name: "fuzz", Dir: module + "/fuzz", FullOnly: true, Limit: 48 * time.Hour,
		About: "Fuzz tests of every parser."},
	{Name: "promises", Dir: module + "/promises", About: "The documented promises, on the built binary.",
		Subjects: []string{"cmd/conduit/..."}},
	{Name: "binary", Dir: module + "/binary", About: "The command line with running agents and with other programs.",
		Subjects: []string{"cmd/conduit/..."}},
	{Name: "unit", Dir: module + "/packages", Run: "^Test(Unit|BillOfMaterials)",
		About:    "The systemd unit, and the bill of materials.",
		Subjects: []string{"cmd/conduit/systemd/*", ".ci/sbom", "go.mod"}},
	{Name: "packages", Dir: module + "/packages", Run: "^TestPackage$", Release: true, Limit: 2 * time.Hour,
		About: "Installation, update and removal of Debian and RPM packages.",
		Subjects: []string{".ci/release", "cmd/conduit/package/*", "cmd/conduit/systemd/*",
			"cmd/conduit/docs/INSTALL.md"}},
	{Name: "cross", Dir: module + "/packages", Run: "^Test(CrossBuilds|Container)$", Release: true,
		Limit:    3 * time.Hour,
		About:    "Builds for other machines, the static binary, and the container image.",
		Subjects: []string{".ci/release", "go.mod", "**/*.c", "cmd/conduit/package/*"}},
	{Name: "reproducible", Dir: module + "/packages", Run: "^TestReproducible$", Release: true,
		Full: []string{"-compared=amd64 arm64 armv7 static"}, Limit: 3 * time.Hour,
		About:    "Two builds of a commit are identical.",
		Subjects: []string{".ci/release", ".ci/reproducible", "go.mod"}},
	{Name: "pages", Dir: module + "/pages", About: "Every command block of the documentation works as described.",
		Full: []string{"-link"}, Subjects: []string{"**/*.md"}},
}
