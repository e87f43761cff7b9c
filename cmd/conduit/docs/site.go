package docs

import (
	"embed"
	"fmt"
	"html"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/web"
)

// page is a page of the site.
type page struct {
	Name    string // of the file, without .html
	Title   string
	Section string
	About   string // a single sentence
	Words   string // that people search, and that the page does not use
	Source  string // path of the Markdown in the repository; empty for a generated page
	Text    string // Markdown
}

// written are the pages that people wrote, in the order of the site. The pages of connectors follow.
var written = []page{
	{Name: "start", Title: "The first five minutes", Section: "Start", Source: "cmd/conduit/docs/START.md",
		About: "From nothing to a pipeline that runs, and on to processors and their tests."},
	{Name: "concepts", Title: "Concepts", Section: "Start", Source: "cmd/conduit/docs/CONCEPTS.md",
		About: "Record, position, key, delivery, window.",
		Words: "opencdc exactly-once at-least-once offset checkpoint ordering flow control"},
	{Name: "choosing", Title: "Choosing a connector", Section: "Start", Source: "cmd/conduit/docs/CHOOSING.md",
		About: "Sources and destinations by task.", Words: "integration input output sink"},
	{Name: "install", Title: "Install as a service", Section: "Start", Source: "cmd/conduit/docs/INSTALL.md",
		About: "Packages, the unit of systemd, upgrades, the sandbox.",
		Words: "systemd service deb rpm docker upgrade journal"},
	{Name: "moving", Title: "Moving over from Conduit", Section: "Start", Source: "cmd/conduit/docs/CONDUIT.md",
		About: "What is compatible, and the differences."},
	{Name: "weblogs", Title: "Web logs to a database and to hourly files", Section: "Recipes",
		Source: "cmd/conduit/docs/WEBLOGS.md", About: "An access log, parsed: rows, and a file or object for each hour.",
		Words: "nginx apache access log parse hourly objects partition"},
	{Name: "container-logs", Title: "Container logs of a Kubernetes node to files", Section: "Recipes",
		Source: "cmd/conduit/docs/CONTAINERLOGS.md",
		About:  "Logs of containers with their pods, whole lines, and stack traces in one record.",
		Words:  "pod docker containerd cri-o cri kubelet daemonset log collector json-file"},
	{Name: "changes", Title: "Changes of a database to files and to a cache", Section: "Recipes",
		Source: "cmd/conduit/docs/CHANGES.md", About: "Every change of a table as a line, and its rows in Redis.",
		Words: "cdc change data capture audit replicate redis invalidate"},
	{Name: "csv", Title: "CSV files to a table, and lines that need a correction", Section: "Recipes",
		Source: "cmd/conduit/docs/CSV.md", About: "A directory of files, an upsert, dead letters and their replay.",
		Words: "import spreadsheet batch upsert reprocess"},
	{Name: "sensors", Title: "Sensors, averages, and an API that fails", Section: "Recipes",
		Source: "cmd/conduit/docs/SENSORS.md", About: "HTTP in, a spool, a result per minute, HTTP out.",
		Words: "iot edge telemetry store and forward retry downsample"},
	{Name: "gitops", Title: "Deploy from git", Section: "Recipes", Source: "cmd/conduit/docs/GITOPS.md",
		About: "GitOps: review, pull, outcome, and the way back.", Words: "continuous deployment ci cd fleet ansible"},
	{Name: "operating", Title: "Operating", Section: "Operate", Source: "cmd/conduit/docs/OPERATING.md",
		About: "Daily work: status, requirements, upgrade, and the pages for each task.",
		Words: "monitor health check show logs restart stop start daily"},
	{Name: "troubleshooting", Title: "Troubleshooting", Section: "Operate",
		Source: "cmd/conduit/docs/TROUBLESHOOTING.md", About: "Why a pipeline does not run, and the remedies.",
		Words: "debug problem error crash slow stuck"},
	{Name: "reload", Title: "Hot reload and rollback", Section: "Operate", Source: "cmd/conduit/docs/RELOAD.md",
		About: "The effect of saving, breaking or deleting a pipeline file."},
	{Name: "deploy", Title: "Deploy with a tool", Section: "Operate", Source: "cmd/conduit/docs/DEPLOY.md",
		About: "Status files that tell a tool the outcome."},
	{Name: "secrets", Title: "Secrets", Section: "Operate", Source: "cmd/conduit/docs/SECRETS.md",
		About: "Passwords and tokens from credentials, files and variables."},
	{Name: "access", Title: "Access to the API", Section: "Operate", Source: "cmd/conduit/docs/ACCESS.md",
		About: "Tokens, TLS, the socket.",
		Words: "token rotate renew revoke password login user permission https tls"},
	{Name: "mcp", Title: "Tools for language models", Section: "Operate", Source: "cmd/conduit/docs/MCP.md",
		About: "The agent in a program with a model, over MCP: setup, tools, safety."},
	{Name: "dead-letters", Title: "Dead letters and replay", Section: "Operate",
		Source: "cmd/conduit/docs/DEADLETTERS.md", About: "List, edit, replay and drop refused records.",
		Words: "discard delete retry failed rejected dlq errors reprocess"},
	{Name: "spool", Title: "Spool", Section: "Operate", Source: "cmd/conduit/docs/SPOOL.md",
		About: "Buffer records on disk while a system is unavailable.", Words: "queue offline backpressure outage"},
	{Name: "ui", Title: "The web UI", Section: "Operate", Source: "cmd/conduit/docs/UI.md",
		About: "Pages, charts of the last day, the log.",
		Words: "rates last hour history throughput show logs dashboard trend graph browser"},
	{Name: "metrics", Title: "Metrics and alerts", Section: "Operate", Source: "cmd/conduit/docs/METRICS.md",
		About: "Every metric, a dashboard, alert rules.",
		Words: "monitor watch prometheus grafana scrape health check alert"},
	{Name: "telemetry", Title: "Send the agent's own telemetry", Section: "Operate",
		Source: "cmd/conduit/docs/TELEMETRY.md",
		About:  "Metrics, log and traces of batches for a collector, and trace contexts in headers.",
		Words:  "tracing spans traceparent jaeger tempo observability monitoring push"},
	{Name: "notifications", Title: "Notifications", Section: "Operate", Source: "cmd/conduit/docs/NOTIFICATIONS.md",
		About: "A webhook or command when something needs a person."},
	{Name: "backup", Title: "Back up and restore", Section: "Operate", Source: "cmd/conduit/docs/BACKUP.md",
		About: "Copies of a running agent, and how to return to one.",
		Words: "disaster recovery copy export"},
	{Name: "store", Title: "The store and its disk", Section: "Operate", Source: "cmd/conduit/docs/STORE.md",
		About: "Files, a full or failing disk, damage."},
	{Name: "memory", Title: "Memory", Section: "Operate", Source: "cmd/conduit/docs/MEMORY.md",
		About: "Limit the memory of the agent and of large records."},
	{Name: "small-hosts", Title: "Small hosts", Section: "Operate", Source: "cmd/conduit/docs/SMALLHOSTS.md",
		About: "Little memory, flash, no network, no clock."},
	{Name: "cluster", Title: "Run a cluster", Section: "Cluster", Source: "cmd/conduit/docs/CLUSTER.md",
		About: "Several hosts share pipelines: setup, failover, faults."},
	{Name: "cluster-pipelines", Title: "Pipelines in a cluster", Section: "Cluster",
		Source: "cmd/conduit/docs/CLUSTER-PIPELINES.md", About: "Placement, state on hosts, the API, dead letters."},
	{Name: "instances", Title: "Several instances", Section: "Cluster", Source: "cmd/conduit/docs/INSTANCES.md",
		About: "A pipeline on several members at once."},
	{Name: "cluster-store", Title: "NATS and PostgreSQL", Section: "Cluster",
		Source: "cmd/conduit/docs/CLUSTER-STORE.md", About: "The store of a cluster: requirements and rights."},
	{Name: "kubernetes", Title: "Kubernetes", Section: "Cluster", Source: "cmd/conduit/docs/KUBERNETES.md",
		About: "A manifest with three agents.", Words: "k8s helm statefulset"},
	{Name: "delivery", Title: "How records are delivered", Section: "Guarantees",
		Source: "cmd/conduit/docs/DELIVERY.md", About: "Acknowledgements, windows, batches, processors.",
		Words: "backpressure flow control exactly-once"},
	{Name: "reliability", Title: "Reliability", Section: "Guarantees", Source: "agent/RELIABILITY.md",
		About: "The contract, and its tests with results."},
	{Name: "promises", Title: "Promises", Section: "Guarantees", Source: "cmd/conduit/docs/PROMISES.md",
		About: "Situations in which data agents lose data, each tested with the built binary."},
	{Name: "prove", Title: "Prove it on your host", Section: "Guarantees", Source: "cmd/conduit/docs/PROVE.md",
		About: "Kills, power cuts and hangs for your own pipelines."},
	{Name: "benchmarks", Title: "Benchmarks", Section: "Guarantees", Source: "agent/engine/BENCHMARKS.md",
		About: "Figures, and how to repeat them."},
	{Name: "security", Title: "Security", Section: "Guarantees", Source: "cmd/conduit/docs/SECURITY.md",
		About: "Threat model, secrets, reporting."},
	{Name: "pipelines", Title: "Writing pipeline files", Section: "Pipelines", Source: "spec/README.md",
		About: "Every field, references, what a change does."},
	{Name: "routing", Title: "Send records to different destinations", Section: "Pipelines",
		Source: "cmd/conduit/docs/ROUTING.md", About: "Conditions of destinations, the first that matches, a default."},
	{Name: "processors", Title: "Processors", Section: "Pipelines", Source: "plugins/processor/README.md",
		About: "All processors with examples, tests of pipelines, processors of your own."},
	{Name: "plugins", Title: "Connectors and plugins", Section: "Connectors", Source: "plugins/README.md",
		About: "Names, executables, confining them, troubleshooting."},
	{Name: "built-in", Title: "What is built in", Section: "Connectors", Source: "plugins/builtin/README.md",
		About: "What each connector promises, with generator, file, log and spool."},
	{Name: "sdk", Title: "Writing connectors", Section: "Connectors", Source: "plugins/sdk/README.md",
		About: "A source, a destination, the rules, settings."},
	{Name: "example", Title: "An example in Go", Section: "Connectors", Source: "plugins/example/README.md",
		About: "A connector from nothing."},
	{Name: "example-python", Title: "An example in Python", Section: "Connectors",
		Source: "plugins/example/python/README.md", About: "A connector in another language."},
	{Name: "testing-connectors", Title: "Testing connectors", Section: "Connectors",
		Source: "plugins/plugintest/README.md", About: "The rules every connector must keep, as tests."},
	{Name: "api", Title: "REST API", Section: "Reference", Source: "api/README.md",
		About: "Resources, plan and apply, the inspector, tokens, limits."},
	{Name: "glance", Title: "Commands at a glance", Section: "Reference", Source: "cmd/conduit/docs/COMMANDS.md",
		About: "All commands in a table."},
	{Name: "schemas", Title: "JSON Schemas", Section: "Reference", Source: "schemas/README.md", About: "For editors."},
}

// pages returns all pages but the first.
func pages(root *ffcli.Command, usage func(*ffcli.Command) string) ([]page, error) {
	var all []page
	for _, p := range written {
		text, err := readPage(p.Source)
		if err != nil {
			return nil, err
		}
		p.Text = string(text)
		all = append(all, p)
	}
	all = append(append(all, connectorPages()...), processorPages()...)
	return append(all, pipelineFilePage(), settingsPage(), commandsPage(root, usage)), nil
}

// sections are in the order of the site.
var sections = []string{"Start", "Recipes", "Operate", "Cluster", "Guarantees", "Pipelines", "Connectors", "Connector",
	"Processor", "Reference"}

//go:embed assets/docs.css assets/docs.js assets/search.js
var assets embed.FS

//go:embed assets/page.html
var layout string

// in puts a page into the layout.
func (p *page) in(menus []menu, version, content string) []byte {
	var nav strings.Builder
	for _, m := range menus {
		open := ""
		if m.Title == p.Section {
			open = " open"
		}
		fmt.Fprintf(&nav, "<details%s><summary>%s</summary>\n<ul>", open, m.Title)
		for _, one := range m.Pages {
			current := ""
			if one.Name == p.Name {
				current = ` aria-current="page"`
			}
			fmt.Fprintf(&nav, "<li><a href=\"%s.html\"%s>%s</a></li>\n", one.Name, current,
				html.EscapeString(one.Title))
		}
		nav.WriteString("</ul></details>\n")
	}
	return []byte(strings.NewReplacer("@TITLE@", html.EscapeString(p.Title), "@VERSION@", html.EscapeString(version),
		"@NAV@", nav.String(), "@CONTENT@", content).Replace(layout))
}

// menu has the pages of a section.
type menu struct {
	Title string
	Pages []page
}

// build generates the site.
func build(root *ffcli.Command, version string, usage func(*ffcli.Command) string) (map[string][]byte, error) {
	all, err := pages(root, usage)
	if err != nil {
		return nil, err
	}
	var menus []menu
	for _, title := range sections {
		m := menu{Title: title}
		for _, p := range all {
			if p.Section == title {
				m.Pages = append(m.Pages, p)
			}
		}
		menus = append(menus, m)
	}
	site := map[string][]byte{}
	all = append(all, front(menus, version))
	converter, index := newConverter(all), []entry{}
	for i := range all {
		p := &all[i]
		content, sections, err := converter.convert(p)
		if err != nil {
			return nil, err
		}
		site[p.Name+".html"], site[p.Name+".md"] = p.in(menus, version, content), converter.markdown(p)
		if p.Name != "index" {
			index = append(index, entry{Name: p.Name, Title: p.Title, About: p.About, Words: p.Words, Sections: sections})
		}
	}
	site["llms.txt"], site["index.js"] = forMachines(menus, version), searchIndex(index)
	return site, addAssets(site)
}

func addAssets(site map[string][]byte) error {
	for _, name := range []string{"docs.js", "search.js", "docs.css"} {
		content, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return err
		}
		site[name] = content
	}
	site["style.css"] = web.Style()
	return nil
}

// front returns the first page: a list of the others.
func front(menus []menu, version string) page {
	return page{Name: "index", Title: "Documentation", Text: "# conduit " + version + "\n\n" +
		"Runs the pipelines declared in a directory of YAML files. " +
		"This is the documentation of this version; it is part of the program.\n" + contents(menus, "html") +
		"\n[Changes by version](https://github.com/conduit-agent/conduit/blob/main/CHANGELOG.md).\n"}
}

// forMachines returns llms.txt: see https://llmstxt.org.
func forMachines(menus []menu, version string) []byte {
	return []byte("# conduit\n\n> A data-pipeline agent: one binary keeps the pipelines running that a directory of " +
		"YAML files declares. Documentation of version " + version + ".\n" + contents(menus, "md"))
}

// contents lists all pages, with links to their files with this ending.
func contents(menus []menu, ending string) string {
	var b strings.Builder
	for _, m := range menus {
		title := m.Title
		if title == "Connector" || title == "Processor" { // a page for each one
			title = "Each " + strings.ToLower(title)
		}
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		for _, p := range m.Pages {
			fmt.Fprintf(&b, "- [%s](%s.%s): %s\n", p.Title, p.Name, ending, p.About)
		}
	}
	return b.String()
}
