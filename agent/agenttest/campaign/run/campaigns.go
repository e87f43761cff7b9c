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
	About string   // what it shows, for people
	Dir   string   // of the package, from the top of the repository
	Run   string   // the tests, as for -test.run; "" is all
	Skip  string   // tests left out, as for -test.skip
	Full  []string // flags of the full run; without them tests have the sizes of the gate

	// Subjects are what the campaign judges: packages, with "/..." those below as well, or patterns of files. The gate runs
	// it when one of them, or what it imports, changed.
	Subjects []string
	Always   bool // the gate runs it after each change
	FullOnly bool // the gate never runs it: it needs more time than a gate has, or a quiet machine

	Limit time.Duration // after which a full run counts as hanging; 0 is an hour
}

// What any loss or reordering of records would be a fault of, whichever connector is used.
var engine = []string{"agent/engine", "agent/store", "agent/deadletters", "plugins/sdk", "plugins/record"}

// of returns subjects and more of them.
func of(subjects []string, more ...string) []string { return slices.Concat(more, subjects) }

// kill is the kill suite of a connector.
func kill(connector, tests string, subjects ...string) Campaign {
	return Campaign{
		Name: "kill-" + connector, Dir: module + "/kill", Run: "^Test(" + tests + ")(Source|Destination|Example)$",
		About:    "Agent and server are killed, and connections are cut, slowed down and frozen, while `" + connector + "` reads and writes: nothing is lost, changed or out of order.",
		Full:     []string{"-all", "-rounds=2"},
		Subjects: of(engine, append(subjects, "plugins/builtin/"+connector+"/...")...),
	}
}

// connector tries a connector against real servers.
func connector(name, about string, subjects ...string) Campaign {
	return Campaign{
		Name: name, Dir: module + "/connectors/" + name, About: about,
		Subjects: append([]string{"plugins/builtin/" + name + "/..."}, subjects...),
	}
}

// campaigns are all campaigns, in the order in which they run.
var campaigns = []Campaign{
	{Name: "smoke", Dir: module + "/smoke", Always: true,
		About: "The built binary runs the demo, reloads, refuses a broken file, and loses no line to `kill -9`.",
		Full:  []string{"-kills=100"}},
	{Name: "smoke-kill", Dir: module + "/kill", Run: "^Test(PostgresSource|KafkaDestination)$", Always: true,
		About: "Kills, with PostgreSQL and with Kafka: one case of each."},

	kill("exec", "Exec"),
	kill("file", "Files?"),
	kill("http", "HTTP(Server|Poll)?"),
	kill("journald", "Journald"),
	kill("kafka", "Kafka(ExactlyOnce|Destination)?"),
	kill("mqtt", "MQTT"),
	kill("mysql", "MySQL(Source)?", "plugins/builtin/sqlsink/..."),
	kill("nats", "NATS"),
	kill("postgres", "Postgres", "plugins/builtin/sqlsink/..."),
	kill("redis", "Redis(Stream|List)?"),
	kill("s3", "S3"),
	kill("sqlite", "SQLite", "plugins/builtin/sqlsink/..."),
	kill("syslog", "Syslog"),
	{Name: "kill-stateful", Dir: module + "/kill", Run: "^Test(Stateful|Judge)$", Full: []string{"-all", "-rounds=100"}, Limit: 4 * time.Hour,
		About:    "Kills with processors that keep state, in front of destinations and dead letters: no record counts that is not written.",
		Subjects: of(engine, "plugins/processor/...")},

	connector("journald", "`journald` with a real journal."),
	connector("kafka", "`kafka` with librdkafka's brokers and clients, SASL and TLS."),
	connector("mqtt", "`mqtt` with Mosquitto."),
	connector("mysql", "`mysql` with MariaDB and MySQL.", "plugins/builtin/sqlsink/..."),
	connector("nats", "`nats` with NATS servers."),
	connector("postgres", "`postgres` with every PostgreSQL that is installed.", "plugins/builtin/sqlsink/..."),
	connector("redis", "`redis` with Redis."),
	connector("s3", "`s3` with a gateway, and Parquet with another reader."),
	connector("sqlite", "`sqlite` next to programs that use SQLite themselves."),
	connector("syslog", "`syslog` with rsyslog, and with a server whose cable is pulled."),

	{Name: "executables", Dir: module + "/executables", Limit: 2 * time.Hour,
		About:    "Connectors in processes of their own, well and badly behaved, confined, in Go and in Python; what authors start from.",
		Subjects: []string{"plugins", "plugins/standalone", "plugins/wire/...", "plugins/sdk", "plugins/plugintest/..."}},
	{Name: "authors", Dir: module + "/authors", About: "An author builds a plugin on a machine without a network.",
		Subjects: []string{"plugins/sdk/starter", ".ci/modules"}},

	{Name: "cluster", Dir: module + "/cluster", Skip: "^Test(Failovers|ManyPipelines|Postgres.*|PromotedStandby)$",
		About:    "Agents share pipelines over NATS: kills, drains, clocks, restored streams, dead letters.",
		Subjects: []string{"agent/cluster/...", "agent/membership", "reconcile"}},
	{Name: "cluster-postgres", Dir: module + "/cluster", Run: "^Test(Postgres.*|PromotedStandby)$",
		About:    "Agents share pipelines over PostgreSQL.",
		Subjects: []string{"agent/cluster/...", "agent/membership", "reconcile"}},
	{Name: "failovers", Dir: module + "/cluster", Run: "^TestFailovers$", Full: []string{"-failovers=1000", "-clusters=2", "-members=5"}, Limit: 24 * time.Hour,
		About:    "Agents and servers of a cluster are killed and stopped while lines are copied.",
		Subjects: []string{"agent/cluster/...", "agent/membership"}},
	{Name: "cluster-size", Dir: module + "/cluster", Run: "^TestManyPipelines$", Full: []string{"-many.pipelines=10000", "-many.members=5", "-many.servers=3", "-many.rest=20s"}, Limit: 4 * time.Hour,
		About:    "Thousands of pipelines on a few agents.",
		Subjects: []string{"agent/cluster/...", "agent/membership"}},
	{Name: "claims-nats", Dir: module + "/cluster/natskv", About: "Claims in NATS are linearizable, survive restarts and need few rights.",
		Subjects: []string{"agent/cluster/natskv"}},
	{Name: "claims-postgres", Dir: module + "/cluster/pgkv", About: "Claims in PostgreSQL are linearizable, with poolers, restarts and promotion.",
		Subjects: []string{"agent/cluster/pgkv"}},

	{Name: "clock", Dir: module + "/clock", Full: []string{"-leaps=5"}, About: "The clock of the machine leaps under a running agent.",
		Subjects: []string{"agent", "agent/engine", "reconcile"}},
	{Name: "faults", Dir: module + "/faults", Full: []string{"-places=0"}, Limit: 6 * time.Hour,
		About:    "Calls of the kernel fail under the store and the dead letters.",
		Subjects: []string{"agent/store", "agent/deadletters", "agent/sqlitefile"}},
	{Name: "sweeps", Dir: module + "/sweeps", Full: []string{"-places=0"}, Limit: 24 * time.Hour,
		About:    "An agent is killed, or gets an error, at each call of the kernel that changes a file.",
		Subjects: of(engine, "agent", "reconcile", "plugins/builtin/file")},

	{Name: "promises", Dir: module + "/promises", About: "What users see, on the built binary: one line for each promise.",
		Subjects: []string{"cmd/conduit"}},
	{Name: "binary", Dir: module + "/binary", About: "The command line with agents and with other programs.",
		Subjects: []string{"cmd/conduit", "cmd/conduit/..."}},
	{Name: "packages", Dir: module + "/packages", Full: []string{"-compared=amd64 arm64 armv7 static"}, Limit: 3 * time.Hour,
		About:    "Packages, the unit, the image, other machines, reproducible builds, the bill of materials.",
		Subjects: []string{".ci/...", "go.mod", "**/*.c", "cmd/conduit/package/*", "cmd/conduit/systemd/*", "justfile"}},
	{Name: "pages", Dir: module + "/pages", About: "Every command block of the pages does what they say.",
		Subjects: []string{"**/*.md"}},
}
