package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/conduit-agent/conduit/agent/telemetry/metric"
)

// connectorLabels identify a connector.
var connectorLabels = []string{"pipeline_name", "pipeline_id", "plugin", "type", "component_id"}

// processorLabels identify a processor, by its plugin as declared and its qualified id.
var processorLabels = []string{"pipeline_name", "processor", "component_id"}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	infoDesc      = desc(metric.Info, "Version of the agent.", "version")
	directoryDesc = desc(metric.Directory, "State of the directory of the pipeline files: 1 for the one it is in.",
		"state")
	filesDesc     = desc(metric.FilesWithProblems, "Pipeline files that have an error.")
	pipelinesDesc = desc(metric.Pipelines, "Number of pipelines by status.", "status")
	statusDesc    = desc(metric.PipelineStatus, "Status of a pipeline: 1 running, 2 stopped, 3 degraded, 4 recovering.",
		"pipeline_name", "pipeline_id")
	failuresDesc = desc(metric.PipelineFailures, "Failures in a row that have not been outlived.", "pipeline_name",
		"pipeline_id")
	notDeliveringDesc = desc(metric.NotDelivering, "Time since a pipeline that should run delivered its last record, "+
		"or since its first one waits, while its condition Delivering is false; 0 otherwise.",
		"pipeline_name", "pipeline_id")
	connectorsDesc = desc(metric.Connectors, "Number of connectors by type.", "type")
	processorsDesc = desc(metric.Processors, "Number of processors by plugin.", "type")

	processedDesc = desc(metric.ProcessorRecords, "Records of a processor by what became of them: in, those that met its condition; out, those that went on, also past it; filtered; refused.", append(processorLabels, "result")...)
	processDesc   = desc(metric.ProcessorSeconds, "Time that a processor takes for a record: that for a batch, shared evenly; every eighth batch is measured, and those between count alike.", processorLabels...)

	lastReadDesc = desc(metric.LastRead,
		"When a source read a record last, in seconds since 1970; 0: not since the agent started.", connectorLabels...)
	recordsDesc  = desc(metric.Records, "Records read by a source, or written by a destination.", connectorLabels...)
	ackedDesc    = desc(metric.AckedRecords, "Records acknowledged to a source.", connectorLabels...)
	nackedDesc   = desc(metric.NackedRecords, "Records that a destination refused.", connectorLabels...)
	filteredDesc = desc(metric.FilteredRecords, "Records of a source that processors dropped.", connectorLabels...)
	bytesDesc    = desc(metric.Bytes, "Bytes of the keys and payloads that passed a connector.", connectorLabels...)
	sizesDesc    = desc(metric.RecordBytes, "Sizes of the keys and payloads of the records that passed a connector.", connectorLabels...)
	callsDesc    = desc(metric.ConnectorSeconds, "Time that a source takes to read a record, waiting for it included, or a destination to write one: that for a batch, shared evenly.", connectorLabels...)

	sequenceDesc = desc(metric.SourceSequence, "Number of the last record of the current run that got to a stage: read, settled, committed, acked.", "pipeline_name", "pipeline_id", "component_id", "stage")
	unackedDesc  = desc(metric.OldestUnacked, "Time since the oldest record not yet acknowledged was read.", "pipeline_name", "pipeline_id", "component_id")

	behindBytesDesc   = desc(metric.BehindBytes, "Bytes that the system of a source holds and the source has not confirmed.", "pipeline_name", "pipeline_id", "component_id")
	behindRecordsDesc = desc(metric.BehindRecords, "Records that the system of a source holds and the source has not confirmed.", "pipeline_name", "pipeline_id", "component_id")
	behindSecondsDesc = desc(metric.BehindSeconds, "Age of the newest data that a source read, 0 when it has read all.", "pipeline_name", "pipeline_id", "component_id")
	behindWarningDesc = desc(metric.SourceWarning, "Whether a source warns of something: 1, or 0.", "pipeline_name", "pipeline_id", "component_id")
	snapshotRowsDesc  = desc(metric.SnapshotRows, "Rows that a running snapshot has read.", "pipeline_name", "pipeline_id", "component_id", "of")
	snapshotTotalDesc = desc(metric.SnapshotTotal, "Rows that a running snapshot is to read, an estimate.", "pipeline_name", "pipeline_id", "component_id", "of")

	startsDesc        = desc(metric.PluginStarts, "Times a connector was started: for a run, a check of settings or a clean-up.", "plugin")
	restartsDesc      = desc(metric.PluginRestarts, "Times a connector was started again for a run: after a failure, a change or a stop.", "plugin")
	memoryDesc        = desc(metric.MemoryRecords, "Bytes that the outstanding records of all sources share, where there is a limit with all other uses.")
	memoryUsedDesc    = desc(metric.MemoryRecordsUsed, "Bytes of them that are used.")
	memoryByUseDesc   = desc(metric.MemoryUsed, "Bytes of records in memory by use.", "use")
	memoryWaitingDesc = desc(metric.MemoryWaiting, "Sources that wait for memory.")

	clusterMembersDesc   = desc(metric.ClusterMembers, "Members of the cluster with a session; 0 while this agent has none.")
	clusterPipelinesDesc = desc(metric.ClusterPipelines, "Pipelines of which this agent has the claim.")
	clusterClaimDesc     = desc(metric.ClusterClaimSince, "Since when this agent has had the claim of a pipeline, by its clock; only of those that it has.", "pipeline_id", "pipeline_instance")
	clusterLagDesc       = desc(metric.ClusterLag, "For how long a write of a claim has gone without a known outcome, the longest of all.")
	clusterNoticesDesc   = desc(metric.ClusterNotices, "What happened to this member and its claims, by reason.", "reason")

	residentDesc = desc(metric.PluginResident, "Memory of a connector's process.", "component_id")
	fdsDesc      = desc(metric.PluginFDs, "Open file descriptors of a connector's process.", "component_id")
	attemptsDesc = desc(metric.ReconcileAttempts, "Attempts to run a version of a pipeline.", "result")
	sessionsDesc = desc(metric.InspectorSessions, "Open inspector sessions.", "component_id")
	droppedDesc  = desc(metric.InspectorDropped, "Records that inspector sessions did not get to see.", "component_id")
	panicsDesc   = desc(metric.APIPanics, "Requests that ended in a panic.")
	ackLagsDesc  = desc(metric.AckLag, "Time from every destination having a record to it being acknowledged to its source.", "pipeline_name", "pipeline_id")

	transitsDesc            = desc(metric.PipelineSeconds, "Time from reading a record to every destination having it.", "pipeline_name", "pipeline_id")
	dlqSizesDesc            = desc(metric.DLQBytes, "Sizes of the payloads written to the dead-letter queue.", "pipeline_name", "pipeline_id", "plugin")
	dlqWritesDesc           = desc(metric.DLQSeconds, "Time the dead-letter queue takes to write.", "pipeline_name", "pipeline_id", "plugin")
	deadLettersDesc         = desc(metric.DeadLetters, "Refused records that are kept.", "pipeline_id")
	deadLetterBytesDesc     = desc(metric.DeadLetterBytes, "Bytes of refused records that are kept.", "pipeline_id")
	deadLettersDroppedDesc  = desc(metric.DeadLettersDropped, "Refused records that were dropped because there were too many, or they were too old.", "pipeline_id")
	deadLettersReplayedDesc = desc(metric.DeadLettersReplayed, "Refused records that a replay settled.")
	commitsDesc             = desc(metric.CommitSeconds, "Time to make positions durable, fsync included.")
	syncsDesc               = desc(metric.FsyncSeconds, "Time to write a transaction of the store to the disk, with fsync.")
	committedDesc           = desc(metric.CommittedPositions, "Positions made durable.")
	silentDesc              = desc(metric.PipelineSilent, "Whether no source of a running pipeline with max-silence has read a record for longer than that: 1, or 0.", "pipeline_id")
	notificationsDesc       = desc(metric.Notifications, "Notifications by result: sent; failed, attempts that are repeated; dropped.", "target", "result")
	phasesDesc              = desc(metric.PipelinePhases, "Times a pipeline entered a phase.", "pipeline_name", "pipeline_id", "phase")
	recoveringDesc          = desc(metric.PipelineRecovering, "Times a pipeline failed and began to recover.", "pipeline_name", "pipeline_id")
	spoolRecordsDesc        = desc(metric.SpoolRecords, "Records in a spool.", "path")
	spoolBytesDesc          = desc(metric.SpoolBytes, "Bytes of a spool on disk.", "path")
	spoolLimitDesc          = desc(metric.SpoolLimit, "Bytes that a spool may have on disk; absent without a bound.", "path")
	spoolMemoryDesc         = desc(metric.SpoolMemory, "Bytes of a spool that wait in memory.", "path")
	spoolWrittenDesc        = desc(metric.SpoolWritten, "Bytes written to a spool.", "path")
	spoolDroppedDesc        = desc(metric.SpoolDropped, "Records dropped because a spool was full.", "path")
	spoolDamagedDesc        = desc(metric.SpoolDamaged, "Records of a spool that were damaged on the disk.", "path")
	spoolBehindDesc         = desc(metric.SpoolBehind, "Records of a spool that a reader has not acknowledged, also while it is away.", "path", "reader")
)
