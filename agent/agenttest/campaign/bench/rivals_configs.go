package main

import (
	"fmt"
	"path/filepath"
)

// The configurations of the rivals, with the batches and buffers that make them fast. Paths are relative to the
// working directory where the program allows it.

func syslogNGLines(dir string, _ int) string {
	return syslogNGConfig(dir, `template("${MSG}\n")`, "")
}

func syslogNGObjects(dir string, _ int) string {
	return syslogNGConfig(dir, `template("$(format-json --pair id=int64(${.json.id}) --pair host=${.json.host} `+
		`--pair app=${.json.app} --pair took=int64(${.json.took}) --pair text=${.json.text} --pair env=prod)\n")`,
		`parser { json-parser(prefix(".json.")); };`)
}

func syslogNGConfig(dir, template, parser string) string {
	return fmt.Sprintf(`@version: 3.38
options { stats-freq(0); time-reopen(1); flush-lines(1000); log-fifo-size(200000); log-msg-size(65536); };
log {
  source { file("%[1]s/input.log" flags(no-parse) log-fetch-limit(1000) log-iw-size(100000)); };
  %[3]s
  destination { file("%[1]s/%[4]s" %[2]s); };
  flags(flow-control);
};
`, dir, template, parser, outputOf(0))
}

func rsyslogLines(dir string, _ int) string {
	return rsyslogConfig(dir, "", "%msg%", "")
}

func rsyslogObjects(dir string, _ int) string {
	return rsyslogConfig(dir, `module(load="mmjsonparse")`, "%$!all-json-plain%",
		`action(type="mmjsonparse" cookie="") set $!env = "prod";`)
}

func rsyslogConfig(dir, module, text, before string) string {
	return fmt.Sprintf(`global(workDirectory="%[1]s" maxMessageSize="64k")
module(load="imfile" mode="inotify")
%[2]s
main_queue(queue.size="200000" queue.dequeueBatchSize="4096")
template(name="line" type="string" string="%[3]s\n")
input(type="imfile" file="%[1]s/input.log" tag="bench" ruleset="copy" addMetadata="off")
ruleset(name="copy") {
  %[4]s
  action(type="omfile" file="%[1]s/%[5]s" template="line" ioBufferSize="256k" flushOnTXEnd="on")
}
`, dir, module, text, before, outputOf(0))
}

// The template serializer of Telegraf does not accept metrics of tail, so that lines are CSV with a column.
func telegrafLines(string, int) string {
	return telegrafConfig("data_format = \"value\"\ndata_type = \"string\"",
		"use_batch_format = true\ndata_format = \"csv\"\ncsv_columns = [\"field.value\"]")
}

func telegrafObjects(string, int) string {
	return telegrafConfig("data_format = \"json\"\njson_string_fields = [\"*\"]\n[inputs.tail.tags]\nenv = \"prod\"",
		"data_format = \"json\"\njson_transformation = \"$merge([fields, tags])\"")
}

func telegrafConfig(input, output string) string {
	return fmt.Sprintf(`[agent]
interval = "1s"
flush_interval = "1s"
metric_batch_size = 10000
metric_buffer_limit = 200000
omit_hostname = true
quiet = true
[[inputs.tail]]
files = ["input.log"]
initial_read_offset = "beginning"
max_undelivered_lines = 100000
path_tag = ""
%s
[[outputs.file]]
files = ["%s"]
%s
`, input, outputOf(0), output)
}

const benthosHead = "http: {enabled: false}\nlogger: {level: WARN}\n"

// Benthos writes each message with a separate call, so lines are joined to larger messages.
const (
	benthosFile = "input: {broker: {inputs: [{file: {paths: [input.log], scanner: {lines: {}}}}], " +
		"batching: {count: 1000, period: 50ms}}}\n"
	benthosJoin = "{archive: {format: lines}}"
)

func benthosLines(string, int) string {
	return benthosHead + benthosFile + "pipeline: {threads: 1, processors: [" + benthosJoin + "]}\n" + benthosOutput()
}

func benthosObjects(string, int) string {
	return benthosHead + benthosFile + "pipeline: {threads: 1, processors: [{mapping: 'root = this.merge({\"env\": " +
		"\"prod\"})'}, " + benthosJoin + "]}\n" + benthosOutput()
}

func benthosGenerator(_ string, n int) string {
	return benthosHead + fmt.Sprintf("input: {generate: {count: %d, interval: '', batch_size: 1000, mapping: "+
		"'root = {\"id\": random_int(), \"name\": uuid_v4()}'}}\n", n) +
		"pipeline: {threads: 1, processors: [" + benthosJoin + "]}\n" + benthosOutput()
}

func benthosOutput() string {
	return "output: {file: {path: " + outputOf(0) + ", codec: lines}}\n"
}

// vlagentContainers makes vlagent ask the API of Kubernetes for the pods, as it does on a node, and send JSON.
func vlagentContainers(dir string, r *receiver) string {
	return "-kubernetesCollector -kubernetesCollector.logsPath=" + filepath.Join(dir, "containers") +
		" -remoteWrite.format=jsonline -remoteWrite.url=" + r.url() + " -tmpDataPath=" + filepath.Join(dir, "tmp") +
		" -httpListenAddr=127.0.0.1:0"
}

// telegrafContainers sends lines as they are: Telegraf has no parser for the format.
func telegrafContainers(_ string, r *receiver) string {
	return fmt.Sprintf(`[agent]
interval = "1s"
flush_interval = "1s"
metric_batch_size = 10000
metric_buffer_limit = 200000
omit_hostname = true
quiet = true
[[inputs.tail]]
files = ["pods/*/*/*.log"]
initial_read_offset = "beginning"
max_undelivered_lines = 100000
data_format = "value"
data_type = "string"
[[outputs.http]]
url = "%s"
data_format = "json"
use_batch_format = true
`, r.url())
}

// syslogNGContainers sends lines as they are.
func syslogNGContainers(dir string, r *receiver) string {
	return fmt.Sprintf(`@version: 3.38
options { stats-freq(0); log-fifo-size(200000); log-msg-size(65536); };
log {
  source { wildcard-file(base-dir("%[1]s/pods") filename-pattern("*.log") recursive(yes) max-files(200)
    flags(no-parse) log-fetch-limit(1000) log-iw-size(200000)); };
  destination { http(url("%[2]s") method("POST") body("${MSG}") delimiter("\n")
    batch-lines(5000) batch-timeout(1000)); };
  flags(flow-control);
};
`, dir, r.url())
}

// rsyslogContainers sends lines as they are over TCP: Debian's rsyslog has no module for HTTP.
func rsyslogContainers(dir string, r *receiver) string {
	return fmt.Sprintf(`global(workDirectory="%[1]s" maxMessageSize="64k")
module(load="imfile" mode="inotify")
main_queue(queue.size="200000" queue.dequeueBatchSize="4096")
template(name="line" type="string" string="%%msg%%\n")
input(type="imfile" file="%[1]s/pods/*/*/*.log" tag="bench" ruleset="send" addMetadata="off")
ruleset(name="send") {
  action(type="omfwd" target="127.0.0.1" port="%[2]d" protocol="tcp" template="line")
}
`, dir, r.port())
}
