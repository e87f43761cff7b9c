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
	directoryDesc = desc(Directory, "State of the directory of the pipeline files: 1 for the one it is in.",
		"state")
	filesDesc     = desc(FilesWithProblems, "Pipeline files that have an error.")
	pipelinesDesc = desc(Pipelines, "Number of pipelines by status.", "status")
	statusDesc    = desc(PipelineStatus, "Status of a pipeline: 1 running, 2 stopped, 3 degraded, 4 recovering.",
		"pipeline_name", "pipeline_id")
	failuresDesc = desc(PipelineFailures, "Failures in a row that have not been outlived.", "pipeline_name",
		"pipeline_id")
	notDeliveringDesc = desc(NotDelivering, "Time since a pipeline that should run delivered its last record, "+
		"or since its first one waits, while its condition Delivering is false; 0 otherwise.",
		"pipeline_name", "pipeline_id")
	connectorsDesc = desc(Connectors, "Number of connectors by type.", "type")
	processorsDesc = desc(Processors, "Number of processors by plugin.", "type")

	processedDesc = desc(ProcessorRecords, "Records of a processor by what became of them: in, those that met its "+
		"condition; out, those that went on, also past it; filtered; refused.", append(processorLabels, "result")...)
	processDesc = desc(ProcessorSeconds,
		"Time that a processor takes for a record: that for a batch, shared evenly; every eighth batch is measured, "+
			"and those between count alike.", processorLabels...)

	lastReadDesc = desc(LastRead,
		"When a source read a record last, in seconds since 1970; 0: not since the agent started.", connectorLabels...)
	recordsDesc  = desc(Records, "Records read by a source, or written by a destination.", connectorLabels...)
	ackedDesc    = desc(AckedRecords, "Records acknowledged to a source.", connectorLabels...)
	nackedDesc   = desc(NackedRecords, "Records that a destination refused.", connectorLabels...)
	filteredDesc = desc(FilteredRecords, "Records of a source that processors dropped.", connectorLabels...)
	bytesDesc    = desc(Bytes, "Bytes of the keys and payloads that passed a connector.", connectorLabels...)
	sizesDesc    = desc(RecordBytes, "Sizes of the keys and payloads of the records that passed a connector.",
		connectorLabels...)
	callsDesc = desc(ConnectorSeconds,
		"Time that a source takes to read a record, waiting for it included, or a destination to write one: that for "+
			"a batch, shared evenly.", connectorLabels...)

	sequenceDesc = desc(SourceSequence, "Number of the last record of the current run that got to a stage: read, "+
		"settled, committed, acked.", "pipeline_name", "pipeline_id", "component_id", "stage")
	unackedDesc = desc(OldestUnacked, "Time since the oldest record not yet acknowledged was read.", "pipeline_name",
		"pipeline_id", "component_id")

	behindBytesDesc = desc(BehindBytes, "Bytes that the system of a source holds and the source has not confirmed.",
		"pipeline_name", "pipeline_id", "component_id")
	behindRecordsDesc = desc(BehindRecords,
		"Records that the system of a source holds and the source has not confirmed.", "pipeline_name", "pipeline_id",
		"component_id")
	behindSecondsDesc = desc(BehindSeconds, "Age of the newest data that a source read, 0 when it has read all.",
		"pipeline_name", "pipeline_id", "component_id")
	behindWarningDesc = desc(SourceWarning, "Whether a source warns of something: 1, or 0.", "pipeline_name",
		"pipeline_id", "component_id")
	snapshotRowsDesc = desc(SnapshotRows, "Rows that a running snapshot has read.", "pipeline_name", "pipeline_id",
		"component_id", "of")
	snapshotTotalDesc = desc(SnapshotTotal, "Rows that a running snapshot is to read, an estimate.", "pipeline_name",
		"pipeline_id", "component_id", "of")

	startsDesc = desc(PluginStarts,
		"Times a connector was started: for a run, a check of settings or a clean-up.", "plugin")
	restartsDesc = desc(PluginRestarts,
		"Times a connector was started again for a run: after a failure, a change or a stop.", "plugin")
	memoryDesc = desc(MemoryRecords,
		"Bytes that the outstanding records of all sources share, where there is a limit with all other uses.")
	memoryUsedDesc    = desc(MemoryRecordsUsed, "Bytes of them that are used.")
	memoryByUseDesc   = desc(MemoryUsed, "Bytes of records in memory by use.", "use")
	memoryWaitingDesc = desc(MemoryWaiting, "Sources that wait for memory.")

	clusterMembersDesc   = desc(ClusterMembers, "Members of the cluster with a session; 0 while this agent has none.")
	clusterPipelinesDesc = desc(ClusterPipelines, "Pipelines of which this agent has the claim.")
	clusterClaimDesc     = desc(ClusterClaimSince,
		"Since when this agent has had the claim of a pipeline, by its clock; only of those that it has.",
		"pipeline_id", "pipeline_instance")
	clusterLagDesc = desc(ClusterLag,
		"For how long a write of a claim has gone without a known outcome, the longest of all.")
	clusterNoticesDesc = desc(ClusterNotices, "What happened to this member and its claims, by reason.", "reason")

	residentDesc = desc(PluginResident, "Memory of a connector's process.", "component_id")
	fdsDesc      = desc(PluginFDs, "Open file descriptors of a connector's process.", "component_id")
	attemptsDesc = desc(ReconcileAttempts, "Attempts to run a version of a pipeline.", "result")
	sessionsDesc = desc(InspectorSessions, "Open inspector sessions.", "component_id")
	droppedDesc  = desc(InspectorDropped, "Records that inspector sessions did not get to see.", "component_id")
	panicsDesc   = desc(APIPanics, "Requests that ended in a panic.")
	ackLagsDesc  = desc(AckLag, "Time from every destination having a record to it being acknowledged to its source.",
		"pipeline_name", "pipeline_id")

	transitsDesc = desc(PipelineSeconds, "Time from reading a record to every destination having it.",
		"pipeline_name", "pipeline_id")
	dlqSizesDesc = desc(DLQBytes, "Sizes of the payloads written to the dead-letter queue.", "pipeline_name",
		"pipeline_id", "plugin")
	dlqWritesDesc = desc(DLQSeconds, "Time the dead-letter queue takes to write.", "pipeline_name",
		"pipeline_id", "plugin")
	deadLettersDesc        = desc(DeadLetters, "Refused records that are kept.", "pipeline_id")
	deadLetterBytesDesc    = desc(DeadLetterBytes, "Bytes of refused records that are kept.", "pipeline_id")
	deadLettersDroppedDesc = desc(DeadLettersDropped,
		"Refused records that were dropped because there were too many, or they were too old.", "pipeline_id")
	deadLettersReplayedDesc = desc(DeadLettersReplayed, "Refused records that a replay settled.")
	commitsDesc             = desc(CommitSeconds, "Time to make positions durable, fsync included.")
	syncsDesc               = desc(FsyncSeconds, "Time to write a transaction of the store to the disk, with fsync.")
	committedDesc           = desc(CommittedPositions, "Positions made durable.")
	silentDesc              = desc(PipelineSilent,
		"Whether no source of a running pipeline with max-silence has read a record for longer than that: 1, or 0.",
		"pipeline_id")
	notificationsDesc = desc(Notifications,
		"Notifications by result: sent; failed, attempts that are repeated; dropped.", "target", "result")
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
