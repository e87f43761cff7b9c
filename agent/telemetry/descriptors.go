package telemetry

import "github.com/prometheus/client_golang/prometheus"

// connectorLabels identify a connector.
var connectorLabels = []string{"pipeline_name", "pipeline_id", "plugin", "type", "component_id"}

// processorLabels identify a processor, by its plugin as declared and its qualified id.
var processorLabels = []string{"pipeline_name", "processor", "component_id"}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	infoDesc       = desc("conduit_info", "Version of the agent.", "version")
	directoryDesc  = desc("conduit_pipelines_directory", "State of the directory of the pipeline files: 1 for the one it is in.", "state")
	pipelinesDesc  = desc("conduit_pipelines", "Number of pipelines by status.", "status")
	statusDesc     = desc("conduit_pipeline_status", "Status of a pipeline: 1 running, 2 stopped, 3 degraded, 4 recovering.", "pipeline_name", "pipeline_id")
	failuresDesc   = desc("conduit_pipeline_failures", "Failures in a row that have not been outlived.", "pipeline_name", "pipeline_id")
	connectorsDesc = desc("conduit_connectors", "Number of connectors by type.", "type")
	processorsDesc = desc("conduit_processors", "Number of processors by plugin.", "type")

	processedDesc = desc("conduit_processor_records_total", "Records of a processor by what became of them: in, those that met its condition; out, those that went on, also past it; filtered; refused.", append(processorLabels, "result")...)
	processDesc   = desc("conduit_processor_execution_duration_seconds", "Time that a processor takes for a record: that for a batch, shared evenly; every eighth batch is measured, and those between count alike.", processorLabels...)

	recordsDesc  = desc("conduit_connector_records_total", "Records read by a source, or written by a destination.", connectorLabels...)
	ackedDesc    = desc("conduit_connector_acked_records_total", "Records acknowledged to a source.", connectorLabels...)
	nackedDesc   = desc("conduit_connector_nacked_records_total", "Records that a destination refused.", connectorLabels...)
	filteredDesc = desc("conduit_connector_filtered_records_total", "Records of a source that processors dropped.", connectorLabels...)
	bytesDesc    = desc("conduit_connector_bytes_total", "Bytes of the keys and payloads that passed a connector.", connectorLabels...)
	sizesDesc    = desc("conduit_connector_bytes", "Sizes of the keys and payloads of the records that passed a connector.", connectorLabels...)
	callsDesc    = desc("conduit_connector_execution_duration_seconds", "Time that a source takes to read a record, waiting for it included, or a destination to write one: that for a batch, shared evenly.", connectorLabels...)

	sequenceDesc = desc("conduit_source_sequence", "Number of the last record of the current run that got to a stage: read, settled, committed, acked.", "pipeline_name", "pipeline_id", "component_id", "stage")
	unackedDesc  = desc("conduit_source_oldest_unacked_seconds", "Time since the oldest record not yet acknowledged was read.", "pipeline_name", "pipeline_id", "component_id")

	behindBytesDesc   = desc("conduit_source_behind_bytes", "Bytes that the system of a source holds and the source has not confirmed.", "pipeline_name", "pipeline_id", "component_id")
	behindRecordsDesc = desc("conduit_source_behind_records", "Records that the system of a source holds and the source has not confirmed.", "pipeline_name", "pipeline_id", "component_id")
	behindSecondsDesc = desc("conduit_source_behind_seconds", "Age of the newest data that a source read, 0 when it has read all.", "pipeline_name", "pipeline_id", "component_id")
	behindWarningDesc = desc("conduit_source_warning", "Whether a source warns of something: 1, or 0.", "pipeline_name", "pipeline_id", "component_id")
	snapshotRowsDesc  = desc("conduit_source_snapshot_rows", "Rows that a running snapshot has read.", "pipeline_name", "pipeline_id", "component_id", "of")
	snapshotTotalDesc = desc("conduit_source_snapshot_total_rows", "Rows that a running snapshot is to read, an estimate.", "pipeline_name", "pipeline_id", "component_id", "of")

	startsDesc        = desc("conduit_plugin_starts_total", "Times a connector was started: for a run, a check of settings or a clean-up.", "plugin")
	restartsDesc      = desc("conduit_plugin_restarts_total", "Times a connector was started again for a run: after a failure, a change or a stop.", "plugin")
	memoryDesc        = desc("conduit_memory_records_bytes", "Bytes that the records in flight of all sources share.")
	memoryUsedDesc    = desc("conduit_memory_records_used_bytes", "Bytes of them that are used.")
	memoryWaitingDesc = desc("conduit_memory_waiting_sources", "Sources that wait for memory.")

	clusterMembersDesc   = desc("conduit_cluster_members", "Members of the cluster with a session; 0 while this agent has none.")
	clusterPipelinesDesc = desc("conduit_cluster_pipelines", "Pipelines of which this agent has the claim.")
	clusterLagDesc       = desc("conduit_cluster_claim_lag_seconds", "For how long a write of a claim has gone without a known outcome, the longest of all.")
	clusterNoticesDesc   = desc("conduit_cluster_notices_total", "What happened to this member and its claims, by reason.", "reason")

	residentDesc = desc("conduit_plugin_resident_bytes", "Memory of a connector's process.", "component_id")
	fdsDesc      = desc("conduit_plugin_open_fds", "Open file descriptors of a connector's process.", "component_id")
	attemptsDesc = desc("conduit_reconcile_attempts_total", "Attempts to run a version of a pipeline.", "result")
	sessionsDesc = desc("conduit_inspector_sessions", "Open inspector sessions.", "component_id")
	droppedDesc  = desc("conduit_inspector_dropped_records_total", "Records that inspector sessions did not get to see.", "component_id")
	panicsDesc   = desc("conduit_api_panics_total", "Requests that ended in a panic.")
	ackLagsDesc  = desc("conduit_source_ack_lag_seconds", "Time from every destination having a record to it being acknowledged to its source.", "pipeline_name", "pipeline_id")

	transitsDesc            = desc("conduit_pipeline_execution_duration_seconds", "Time from reading a record to every destination having it.", "pipeline_name", "pipeline_id")
	dlqSizesDesc            = desc("conduit_dlq_bytes", "Sizes of the payloads written to the dead-letter queue.", "pipeline_name", "pipeline_id", "plugin")
	dlqWritesDesc           = desc("conduit_dlq_execution_duration_seconds", "Time the dead-letter queue takes to write.", "pipeline_name", "pipeline_id", "plugin")
	deadLettersDesc         = desc("conduit_dead_letters", "Refused records that are kept.", "pipeline_id")
	deadLetterBytesDesc     = desc("conduit_dead_letters_bytes", "Bytes of refused records that are kept.", "pipeline_id")
	deadLettersDroppedDesc  = desc("conduit_dead_letters_dropped_total", "Refused records that were dropped because there were too many, or they were too old.", "pipeline_id")
	deadLettersReplayedDesc = desc("conduit_dead_letters_replayed_total", "Refused records that a replay settled.")
	commitsDesc             = desc("conduit_commit_duration_seconds", "Time to make positions durable, fsync included.")
	syncsDesc               = desc("conduit_fsync_duration_seconds", "Time to write a transaction of the store to the disk, with fsync.")
	committedDesc           = desc("conduit_committed_positions_total", "Positions made durable.")
	silentDesc              = desc("conduit_pipeline_silent", "Whether no source of a running pipeline with max-silence has read a record for longer than that: 1, or 0.", "pipeline_id")
	notificationsDesc       = desc("conduit_notifications_total", "Notifications by result: sent; failed, attempts that are repeated; dropped.", "target", "result")
	phasesDesc              = desc("conduit_pipeline_phases_total", "Times a pipeline entered a phase.", "pipeline_name", "pipeline_id", "phase")
	recoveringDesc          = desc("pipeline_recovering_count", "Times a pipeline failed and began to recover.", "pipeline_name", "pipeline_id")
	spoolRecordsDesc        = desc("conduit_spool_records", "Records in a spool.", "path")
	spoolBytesDesc          = desc("conduit_spool_bytes", "Bytes of a spool on disk.", "path")
	spoolMemoryDesc         = desc("conduit_spool_memory_bytes", "Bytes of a spool that wait in memory.", "path")
	spoolWrittenDesc        = desc("conduit_spool_written_bytes_total", "Bytes written to a spool.", "path")
	spoolDroppedDesc        = desc("conduit_spool_dropped_records_total", "Records dropped because a spool was full.", "path")
	spoolDamagedDesc        = desc("conduit_spool_damaged_records_total", "Records of a spool that were damaged on the disk.", "path")
	spoolBehindDesc         = desc("conduit_spool_reader_behind_records", "Records of a spool that a reader has not acknowledged, also while it is away.", "path", "reader")
)
