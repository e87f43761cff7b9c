package telemetry

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// AlertRule is an alert rule of Prometheus.
type AlertRule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// alertRule returns a rule whose severity is critical or warning.
func alertRule(name, severity, lasts, expr, summary, advice string) AlertRule {
	return AlertRule{name, expr, lasts, map[string]string{"severity": severity},
		map[string]string{"summary": summary, "description": advice}}
}

// AlertRules returns the alert rules.
func AlertRules() []AlertRule {
	return append(pipelineRules(), agentRules()...)
}

func pipelineRules() []AlertRule {
	const pipeline = "pipeline {{ $labels.pipeline_id }} on {{ $labels.instance }}"
	const isolated = "isolated destination {{ $labels.component_id }} on {{ $labels.instance }}"
	return []AlertRule{
		alertRule("ConduitPipelineDegraded", "critical", "1m", PipelineStatus+" == 3",
			pipeline+" failed and is not restarted",
			"conduit status {{ $labels.pipeline_id }} says why. It runs again when its file or its environment is "+
				"corrected."),
		alertRule("ConduitPipelineFailing", "warning", "10m", PipelineFailures+" > 0",
			pipeline+" has failed {{ $value }} times in a row",
			"It is restarted with growing pauses. conduit status {{ $labels.pipeline_id }} says why."),
		alertRule("ConduitPipelineStuck", "warning", "2m", NotDelivering+" > 60",
			pipeline+" has delivered nothing for {{ $value | humanizeDuration }}",
			"conduit status {{ $labels.pipeline_id }} names the stage that holds it up, and why."),
		alertRule("ConduitPipelineSilent", "warning", "1m", PipelineSilent+" == 1",
			pipeline+" has read nothing for longer than its max-silence",
			"See whether the system of its source still produces records."),
		alertRule("ConduitSourceWarns", "warning", "10m", SourceWarning+" == 1",
			"source {{ $labels.component_id }} on {{ $labels.instance }} reports a warning",
			"conduit status {{ $labels.pipeline_id }} shows it."),
		alertRule("ConduitDeadLetters", "warning", "0s",
			fmt.Sprintf("%[1]s - (%[1]s offset 15m or 0 * %[1]s) > 0", DeadLetters),
			pipeline+" refused {{ $value }} records in 15 minutes",
			"conduit dlq ls {{ $labels.pipeline_id }} lists them; they can be replayed."),
		alertRule("ConduitDeadLettersDropped", "critical", "0s",
			fmt.Sprintf("increase(%s[1h]) > 0", DeadLettersDropped),
			pipeline+" dropped dead letters",
			"Raise dead-letters.max-count, max-bytes or max-age, or replay them sooner."),
		alertRule("ConduitConnectorRestarts", "warning", "0s", fmt.Sprintf("increase(%s[15m]) > 10", PluginRestarts),
			"connector {{ $labels.plugin }} on {{ $labels.instance }} was started {{ $value }} times in 15 minutes",
			"conduit events and the log say why it ends."),
		alertRule("ConduitSpoolFull", "warning", "5m", fmt.Sprintf("%s / %s > 0.8", SpoolBytes, SpoolLimit),
			"the spool {{ $labels.path }} on {{ $labels.instance }} is at {{ $value | humanizePercentage }} of "+
				"its limit", "Its readers are slow or away: conduit spool ls shows how far behind they are. Raise "+
				"limit.bytes; its setting full says what happens at the limit."),
		alertRule("ConduitSpoolDrops", "critical", "0s",
			fmt.Sprintf("increase(%s[15m]) > 0 or increase(%s[15m]) > 0", SpoolDropped, SpoolDamaged),
			"the spool {{ $labels.path }} on {{ $labels.instance }} lost records",
			"It was full, or its disk fails: conduit spool check {{ $labels.path }}."),
		alertRule("ConduitIsolatedFailing", "warning", "5m", IsolatedFailing+" == 1",
			"the "+isolated+" fails, and its records wait on disk", "conduit status {{ $labels.pipeline_id }} shows the error."),
		alertRule("ConduitIsolatedFull", "warning", "5m", fmt.Sprintf("%s / %s > 0.8", IsolatedBytes, IsolatedLimit),
			"the log of the "+isolated+" is at {{ $value | humanizePercentage }} of its limit",
			"The destination is slow or away. Raise bytes of isolate; full says what happens at the limit."),
		alertRule("ConduitIsolatedDrops", "critical", "0s", fmt.Sprintf("increase(%s[15m]) > 0", IsolatedDropped),
			"the "+isolated+" lost records", "Its log was full, and isolate has full: drop-oldest. Raise bytes."),
	}
}

func agentRules() []AlertRule {
	const agent = "the agent on {{ $labels.instance }}"
	return []AlertRule{
		alertRule("ConduitAbsent", "critical", "5m", fmt.Sprintf("absent(%s)", Info),
			"no agent is scraped", "Start it, or correct the scrape configuration."),
		alertRule("ConduitUpdateFailed", "warning", "0s",
			fmt.Sprintf(`increase(%s{result="error"}[10m]) > 0`, ReconcileAttempts),
			agent+" could not run a version of a pipeline",
			"The last known good version may be running: conduit status shows the declared and the running "+
				"generation."),
		alertRule("ConduitFilesWithProblems", "warning", "5m", FilesWithProblems+" > 0",
			"{{ $value }} pipeline files on {{ $labels.instance }} have errors",
			"conduit status names file and line. The last known good versions run."),
		alertRule("ConduitFilesUnavailable", "critical", "5m",
			fmt.Sprintf(`%s{state=~"missing|unreadable|held"} == 1`, Directory),
			"the directory of pipeline files on {{ $labels.instance }} is {{ $labels.state }}",
			"Running pipelines continue. Mount it again, or confirm with conduit reload --prune."),
		alertRule("ConduitStoreSlow", "warning", "10m",
			fmt.Sprintf("histogram_quantile(0.99, rate(%s_bucket[10m])) > 0.5", FsyncSeconds),
			"the disk of "+agent+" takes {{ $value | humanizeDuration }} for an fsync",
			"Sources are acknowledged only after it. conduit doctor measures the disk."),
		alertRule("ConduitMemoryShort", "warning", "15m", MemoryWaiting+" > 0",
			"{{ $value }} sources on {{ $labels.instance }} wait for memory",
			"A destination is slow, or memory.limit is small."),
		alertRule("ConduitClusterSessionLost", "critical", "1m", ClusterMembers+" == 0",
			agent+" has no session in its cluster",
			"It runs no pipelines of the cluster. conduit cluster status says why."),
		alertRule("ConduitNotificationsDropped", "warning", "0s",
			fmt.Sprintf(`increase(%s{result="dropped"}[1h]) > 0`, Notifications),
			agent+" dropped notifications to {{ $labels.target }}", "conduit notify test shows the error."),
		alertRule("ConduitCertificateExpires", "warning", "15m",
			fmt.Sprintf("%s - time() < 7 * 86400", APICertificateExpiry),
			"the certificate of the API of "+agent+" expires in {{ $value | humanizeDuration }}",
			"Renew the files in api.tls.cert-file and api.tls.key-file; they are used at once."),
		alertRule("ConduitPanics", "warning", "0s", fmt.Sprintf("increase(%s[1h]) > 0", APIPanics),
			"a request to "+agent+" ended in a panic", "Report it, with the log."),
	}
}

// Alerts returns rules as a rule file of Prometheus.
func Alerts(rules []AlertRule) []byte {
	type group struct {
		Name  string      `yaml:"name"`
		Rules []AlertRule `yaml:"rules"`
	}
	var b bytes.Buffer
	b.WriteString("# Alert rules of the conduit agent, for rule_files of Prometheus.\n")
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(map[string][]group{"groups": {{"conduit", rules}}}); err != nil {
		panic(err) // the values are all text
	}
	return b.Bytes()
}
