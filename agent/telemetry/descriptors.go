package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
)

// connectorLabels identify a connector.
var connectorLabels = []string{"pipeline_name", "pipeline_id", "plugin", "type", "component_id"}

// processorLabels identify a processor, by its plugin as declared and its qualified id.
var processorLabels = []string{"pipeline_name", "processor", "component_id"}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	infoDesc      = desc(Info, "Version of the agent.", "version")
	directoryDesc = desc(Directory, "State of the directory of the pipeline files: 1 for the current state, 0 for "+
		"the others.",
		"state")
	filesDesc     = desc(FilesWithProblems, "Pipeline files that have an error.")
	pipelinesDesc = desc(Pipelines, "Number of pipelines by status.", "status")
	statusDesc    = desc(PipelineStatus, "Status of a pipeline: 1 running, 2 stopped, 3 degraded, 4 recovering.",
		"pipeline_name", "pipeline_id")
	failuresDesc = desc(PipelineFailures, "Failures in a row since the pipeline last ran steadily.", "pipeline_name",
		"pipeline_id")
	notDeliveringDesc = desc(NotDelivering, "Time since a pipeline that should run delivered its last record, "+
		"or since its first one waits, while its condition Delivering is false; 0 otherwise.",
		"pipeline_name", "pipeline_id")
	connectorsDesc = desc(Connectors, "Number of connectors by type.", "type")
	processorsDesc = desc(Processors, "Number of processors by plugin.", "type")

	processedDesc = desc(ProcessorRecords, "Records of a processor by result: in, met its condition; out, passed on, "+
		"including records that bypassed it; filtered; refused.", append(processorLabels, "result")...)
	processDesc = desc(ProcessorSeconds,
		"Time that a processor takes for a record: the time of a batch divided by its records. Every eighth batch is "+
			"measured, and stands for the batches between.", processorLabels...)

	lastReadDesc = desc(
		LastRead,
		"Time when a source last read a record, in seconds since 1970; 0: not since the agent started.",
		connectorLabels...)
	recordsDesc  = desc(Records, "Records read by a source, or written by a destination.", connectorLabels...)
	ackedDesc    = desc(AckedRecords, "Records acknowledged to a source.", connectorLabels...)
	nackedDesc   = desc(NackedRecords, "Records that a destination refused.", connectorLabels...)
	filteredDesc = desc(FilteredRecords, "Records of a source that processors dropped.", connectorLabels...)
	bytesDesc    = desc(Bytes, "Bytes of the keys and payloads that passed a connector.", connectorLabels...)
	sizesDesc    = desc(RecordBytes, "Sizes of the keys and payloads of the records that passed a connector.",
		connectorLabels...)
	callsDesc = desc(ConnectorSeconds,
		"Time that a source takes to read a record, including the wait for it, or a destination to write one: the "+
			"time of a batch divided by its records.", connectorLabels...)

	sequenceDesc = desc(SourceSequence, "Number of the last record of the current run that reached a stage: read, "+
		"settled, committed, acked.", "pipeline_name", "pipeline_id", "component_id", "stage")
	unackedDesc = desc(OldestUnacked, "Time since the oldest record not yet acknowledged was read.", "pipeline_name",
		"pipeline_id", "component_id")

	behindBytesDesc = desc(BehindBytes, "Bytes that the system of a source holds and the source has not confirmed.",
		"pipeline_name", "pipeline_id", "component_id")
	behindRecordsDesc = desc(BehindRecords,
		"Records that the system of a source holds and the source has not confirmed.", "pipeline_name", "pipeline_id",
		"component_id")
	behindSecondsDesc = desc(BehindSeconds,
		"Age of the newest data that a source has read; 0 when it has read everything.", "pipeline_name", "pipeline_id",
		"component_id")
	behindWarningDesc = desc(SourceWarning, "1 while a source reports a warning, otherwise 0.", "pipeline_name",
		"pipeline_id", "component_id")
	snapshotRowsDesc = desc(SnapshotRows, "Rows that a running snapshot has read.", "pipeline_name", "pipeline_id",
		"component_id", "of")
	snapshotTotalDesc = desc(SnapshotTotal, "Estimated number of rows that a running snapshot reads in total.",
		"pipeline_name", "pipeline_id", "component_id", "of")

	startsDesc = desc(PluginStarts,
		"Times a connector was started: for a run, a check of settings or a clean-up.", "plugin")
	restartsDesc = desc(PluginRestarts,
		"Times a connector was restarted for a run: after a failure, a change or a stop.", "plugin")
	memoryDesc = desc(MemoryRecords,
		"Bytes available to the in-flight records of all sources, where there is a limit shared with all other uses.")
	memoryUsedDesc    = desc(MemoryRecordsUsed, "Used bytes of the memory for in-flight records.")
	memoryByUseDesc   = desc(MemoryUsed, "Bytes of records in memory by use.", "use")
	memoryWaitingDesc = desc(MemoryWaiting, "Sources that wait for memory.")

	clusterMembersDesc   = desc(ClusterMembers, "Members of the cluster with a session; 0 while this agent has none.")
	clusterPipelinesDesc = desc(ClusterPipelines, "Pipelines whose claim this agent holds.")
	clusterClaimDesc     = desc(ClusterClaimSince,
		"Time since when this agent has held the claim of a pipeline, by its clock; only for claims that it holds.",
		"pipeline_id", "pipeline_instance")
	clusterLagDesc = desc(ClusterLag,
		"Longest time that a write of a claim has been without a known outcome.")
	clusterNoticesDesc = desc(ClusterNotices, "Events of this member and its claims, by reason.", "reason")

	residentDesc = desc(PluginResident, "Memory of a connector's process.", "component_id")
	fdsDesc      = desc(PluginFDs, "Open file descriptors of a connector's process.", "component_id")
	attemptsDesc = desc(ReconcileAttempts, "Attempts to run a version of a pipeline.", "result")
	sessionsDesc = desc(InspectorSessions, "Open inspector sessions.", "component_id")
	droppedDesc  = desc(InspectorDropped, "Records that inspector sessions skipped.", "component_id")
	panicsDesc   = desc(APIPanics, "Requests that ended in a panic.")
	expiryDesc   = desc(APICertificateExpiry, "Time when the certificate of the API expires, in seconds since 1970.")
	ackLagsDesc  = desc(AckLag, "Time from the last destination writing a record to its acknowledgement to the source.",
		"pipeline_name", "pipeline_id")

	transitsDesc = desc(PipelineSeconds, "Time from reading a record until every destination has written it.",
		"pipeline_name", "pipeline_id")
	deadLetterQueueSizesDesc = desc(
		DeadLetterQueueBytes,
		"Sizes of the payloads written to the dead-letter queue.",
		"pipeline_name",
		"pipeline_id",
		"plugin",
	)
	deadLetterQueueWritesDesc = desc(
		DeadLetterQueueSeconds,
		"Time the dead-letter queue takes to write.",
		"pipeline_name",
		"pipeline_id",
		"plugin",
	)
	deadLettersDesc        = desc(DeadLetters, "Dead letters in the store.", "pipeline_id")
	deadLetterBytesDesc    = desc(DeadLetterBytes, "Bytes of dead letters in the store.", "pipeline_id")
	deadLettersDroppedDesc = desc(DeadLettersDropped,
		"Dead letters that were dropped because there were too many or they were too old.", "pipeline_id")
	deadLettersReplayedDesc = desc(DeadLettersReplayed, "Dead letters that a replay settled.")
	commitsDesc             = desc(CommitSeconds, "Time to make positions durable, fsync included.")
	syncsDesc               = desc(FsyncSeconds, "Time to write a transaction of the store to the disk, with fsync.")
	committedDesc           = desc(CommittedPositions, "Positions made durable.")
	silentDesc              = desc(PipelineSilent,
		"1 while no source of a running pipeline with max-silence has read a record for longer than that, otherwise 0.",
		"pipeline_id")
	notificationsDesc = desc(Notifications,
		"Notifications by result: sent; failed, attempts that are repeated; dropped.", "target", "result")
	exportedDesc = desc(Exported,
		"Spans, log records, and transmissions of all metrics for a collector, by result: sent or dropped.",
		"signal", "result")
	phasesDesc = desc(PipelinePhases, "Times a pipeline entered a phase.", "pipeline_name", "pipeline_id",
		"phase")
	recoveringDesc = desc(PipelineRecovering, "Times a pipeline failed and began to recover.", "pipeline_name",
		"pipeline_id")
	spoolRecordsDesc = desc(SpoolRecords, "Records in a spool.", "path")
	spoolBytesDesc   = desc(SpoolBytes, "Bytes of a spool on disk.", "path")
	spoolLimitDesc   = desc(SpoolLimit, "Bytes that a spool may have on disk; absent without a bound.", "path")
	spoolMemoryDesc  = desc(SpoolMemory, "Bytes of a spool that wait in memory.", "path")
	spoolWrittenDesc = desc(SpoolWritten, "Bytes written to a spool.", "path")
	spoolDroppedDesc = desc(SpoolDropped, "Records dropped because a spool was full.", "path")
	spoolDamagedDesc = desc(SpoolDamaged, "Records of a spool that were damaged on the disk.", "path")
	spoolBehindDesc  = desc(SpoolBehind,
		"Records of a spool that a reader has not acknowledged, also while it is away.", "path", "reader")
)
