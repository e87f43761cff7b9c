package mcp

// tools are all tools. The ones for readers use only operations that the read token of the API allows.
var tools = []tool{
	{name: "agent_status", about: "Whether the agent is ready, its version, and its pipeline files with problems.",
		add: call(agentStatus)},
	{name: "list_pipelines", about: "All pipelines with their state, and the cause if one does not deliver.",
		add: call(listPipelines)},
	{name: "pipeline_status", about: "State of a pipeline: cause of a failure, conditions, stages with rates and errors.",
		add: call(pipelineStatus)},
	{name: "pipeline_declaration", about: "A pipeline as a pipeline file in YAML. Secrets are shown as ***.",
		add: call(pipelineDeclaration)},
	{name: "list_events", about: "What happened: starts, failures, rollbacks, changed files. Oldest first.",
		add: call(listEvents)},
	{name: "pipeline_logs", about: "The last log lines about a pipeline and its connectors. Oldest first.",
		add: call(pipelineLogs)},
	{name: "sample_records", about: "The next records that pass a connector or a processor. Waits for them; does not " +
		"slow the pipeline.", add: call(sampleRecords)},
	{name: "list_dead_letters", about: "Records that a pipeline refused, newest first, with their errors. Without a " +
		"pipeline: the number of each.", add: call(listDeadLetters)},
	{name: "dead_letter", about: "A dead letter with its record and its refusals.", add: call(deadLetter)},
	{name: "metrics", about: "Current metrics in the text format of Prometheus, selected by words.",
		add: call(metrics)},
	{name: "pending_changes", about: "Changes that the saved pipeline files would make now, and their problems.",
		add: call(pendingChanges)},
	{name: "search_docs", about: "Search the documentation of this version.", add: call(searchDocs)},
	{name: "read_docs", about: "A page of the documentation, or one section of it.", add: call(readDocs)},
	{name: "list_plugins", about: "Connectors and processors that pipelines can use.", add: call(listPlugins)},
	{name: "plugin_settings", about: "Settings of a connector or processor: default, rules, description.",
		add: call(pluginSettings)},

	{name: "validate", about: "Check the text of a pipeline file, with its plugins and settings. Nothing is saved.",
		admin: true, add: call(validate)},
	{name: "dry_run", about: "Run records through the processors of a pipeline file. Opens no connector; processors " +
		"that call other services do call them.", admin: true, add: call(dryRun)},
	{name: "plan_file", about: "Changes that saving a pipeline file would make. Nothing is saved.", admin: true,
		add: call(planFile)},
	{name: "plan", about: "Changes that a new text of a pipeline of the API would make, and their hash. Changes " +
		"nothing.", admin: true, add: call(plan)},

	{name: "apply", about: "Make the changes of a plan. Needs the same text and the hash of the plan; fails if " +
		"anything has changed since. Creates, changes, starts (status: running) or stops (status: stopped) a pipeline " +
		"of the API.", admin: true, write: true, add: call(apply)},
}
