package api

import (
	"encoding/json"
	"time"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/spec"
)

// Examples of bodies, for the document.
var (
	exampleTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	empty       = rest.Empty{}

	exampleNotificationResults = []spec.NotificationResult{{Target: "webhook https://alerts.example.com",
		Delivered: true, Seconds: 0.12}}

	requestPipeline = struct {
		ID     string              `json:"id,omitempty"`
		Config rest.PipelineConfig `json:"config"`
	}{"orders", rest.PipelineConfig{Name: "Orders", Description: "From the shop to the warehouse",
		Labels: map[string]string{"team": "shop"}}}
	examplePipeline = rest.Pipeline{
		ID: "orders", State: rest.PipelineState{Status: rest.StatusStopped, StoppedReason: rest.StoppedByUser},
		Config:       rest.PipelineConfig{Name: "Orders", Description: "From the shop to the warehouse"},
		ConnectorIDs: []string{"orders:shop", "orders:warehouse"}, ProcessorIDs: []string{}, CreatedAt: exampleTime,
		UpdatedAt: exampleTime,
	}

	exampleConfig = rest.ConnectorConfig{Name: "shop",
		Settings: map[string]string{"format.type": "structured", "format.options.id": "int", "rate": "1"}}
	requestConnector = struct {
		ID         string               `json:"id,omitempty"`
		Type       rest.ConnectorType   `json:"type"`
		Plugin     string               `json:"plugin"`
		PipelineID string               `json:"pipelineId"`
		Config     rest.ConnectorConfig `json:"config"`
	}{"shop", rest.TypeSource, "builtin:generator", "orders", exampleConfig}
	updateConnector = struct {
		Plugin string               `json:"plugin,omitempty"`
		Config rest.ConnectorConfig `json:"config"`
	}{"builtin:generator", exampleConfig}
	exampleValidation = rest.Validation{Type: rest.TypeSource, Plugin: "builtin:generator", Config: exampleConfig}
	exampleConnector  = rest.Connector{
		ID: "orders:shop", SourceState: &rest.SourceState{Position: []byte("42")}, Config: exampleConfig,
		Type:   rest.TypeSource,
		Plugin: "builtin:generator", PipelineID: "orders", ProcessorIDs: []string{}, CreatedAt: exampleTime,
		UpdatedAt: exampleTime,
	}

	exampleProcessorConfig = rest.ProcessorConfig{Settings: map[string]string{"field": ".Metadata.shop",
		"value": "north"}, Workers: 1}
	requestProcessor = struct {
		ID        string               `json:"id,omitempty"`
		Plugin    string               `json:"plugin"`
		Condition string               `json:"condition,omitempty"`
		Parent    rest.Parent          `json:"parent"`
		Config    rest.ProcessorConfig `json:"config"`
	}{"mark", "field.set", "", rest.Parent{Type: rest.ParentPipeline, ID: "orders"}, exampleProcessorConfig}
	updateProcessor = struct {
		Plugin    string               `json:"plugin,omitempty"`
		Condition string               `json:"condition,omitempty"`
		Config    rest.ProcessorConfig `json:"config"`
	}{"field.set", "", exampleProcessorConfig}
	exampleProcessor = rest.Processor{ID: "orders:mark", Config: exampleProcessorConfig, Plugin: "field.set",
		Parent: rest.Parent{Type: rest.ParentPipeline, ID: "orders"}, CreatedAt: exampleTime, UpdatedAt: exampleTime}

	exampleWindow          = rest.Count(20)
	requestDeadLetterQueue = rest.DeadLetterQueueDocument{
		Plugin:              "builtin:log",
		Settings:            map[string]string{"level": "warn"},
		WindowSize:          &exampleWindow,
		WindowNackThreshold: 5,
	}
	exampleDeadLetterQueue = rest.DeadLetterQueue{
		Plugin:              "builtin:log",
		Settings:            map[string]string{"level": "warn"},
		WindowSize:          20,
		WindowNackThreshold: 5,
	}

	exampleDeclared = spec.Pipeline{ID: "orders", Status: spec.StatusStopped, Name: "Orders",
		Connectors: []spec.Connector{
			{ID: "shop", Type: spec.TypeSource, Plugin: "builtin:generator", Name: "shop",
				Settings: exampleConfig.Settings},
			{ID: "warehouse", Type: spec.TypeDestination, Plugin: "builtin:log", Name: "warehouse"}},
		DeadLetterQueue: spec.DeadLetterQueue{Plugin: "builtin:log", WindowSize: 1}}
	exampleImport = struct {
		Version   string           `json:"version"`
		Pipelines []map[string]any `json:"pipelines"`
	}{"2.2", []map[string]any{{"id": "orders", "status": "stopped", "connectors": []map[string]any{
		{"id": "shop", "type": "source", "plugin": "builtin:generator", "settings": exampleConfig.Settings},
		{"id": "warehouse", "type": "destination", "plugin": "builtin:log"}}}}}
	exampleFile     = string(spec.Marshal(exampleDeclared))
	exampleDocument = rest.PipelineDocument{ID: "orders", Status: spec.StatusStopped, Name: "Orders",
		Connectors: []rest.ConnectorDocument{
			{ID: "shop", Type: spec.TypeSource, Plugin: "builtin:generator", Settings: exampleConfig.Settings},
			{ID: "warehouse", Type: spec.TypeDestination, Plugin: "builtin:log"}}}
	exampleDocumentPlan  = rest.DocumentPlan{Config: exampleDocument}
	exampleDocumentApply = rest.DocumentApply{Config: exampleDocument, Hash: exampleDocumentDiff.Hash}
	exampleDocumentDiff  = rest.DocumentDiff{PipelineID: "orders", Hash: "6b86b273ff34fce19d6b804eff5a3f57",
		Changes: []rest.ResourceChange{
			{Resource: rest.ResourceConnector, ID: "orders:shop", Action: rest.ResourceUpdate,
				Effect:      rest.ResourceRestart,
				ExactEffect: spec.EffectRestart,
				ConfigPaths: []string{"settings.rate"}, Code: "provisioning.connector.update"}}}

	exampleStop     = rest.Stop{}
	exampleRollback = rest.Rollback{Revision: 1}
	exampleAdopt    = rest.Adopt{Path: "orders.yaml"}
	exampleReload   = rest.Reload{}
	exampleRevision = spec.Revision{Pipeline: "orders", Number: 1, Generation: 1, At: exampleTime,
		Origin: "api", Action: "declare", Spec: &exampleDeclared}
	exampleRate1, exampleRate2 = "1", "2"
	exampleDiff                = rest.Diff{ID: "orders",
		From: &rest.Version{Generation: 1, Revision: 1, At: exampleTime, Origin: "file orders.yaml:3"},
		To:   rest.Version{Generation: 2, Revision: 2, At: exampleTime, Origin: "file orders.yaml:3"},
		Changes: []rest.ValueChanged{{Change: spec.Change{Path: "/connectors/shop/settings/rate",
			Action: spec.ActionChange, Effect: spec.EffectRestart}, Old: &exampleRate1, New: &exampleRate2}}}
	exampleBytes  = int64(4096)
	exampleBehind = progress.Report{Bytes: &exampleBytes, At: exampleTime}
	exampleRates  = spec.PipelineRates{ID: "orders", Records: 1000, Delivered: 1000, Bytes: 64000,
		Series: []float64{980, 1000},
		Stages: map[string]spec.StageRates{"orders:shop": {Kind: spec.StageSource, Records: 1000, In: 1000, Out: 1000,
			Bytes: 64000, Busy: 0.1, Doing: "waiting for destinations", Outstanding: 4096, Behind: &exampleBehind},
			"orders:warehouse": {Kind: spec.StageDestination, Records: 1000, In: 1000, Out: 1000, Bytes: 64000,
				Busy: 0.97, Doing: "writing", Outstanding: 4000, Slow: "shop waits for warehouse"}}}
	exampleStatus = rest.PipelineStatus{ID: "orders",
		Owner: spec.Owner{Kind: spec.OwnerFile, Path: "orders.yaml", Line: 3}, Generation: 2,
		Digest: "9f86d081", Declared: spec.StatusRunning, Problems: []spec.Problem{}, Rates: &exampleRates,
		State: spec.State{PipelineID: "orders", Phase: spec.PhaseRunning, RunningGeneration: 2,
			LastAttempt: &spec.Attempt{Generation: 2, At: exampleTime}, Since: exampleTime},
		Conditions: []spec.Condition{{Type: spec.ConditionReady, Status: spec.ConditionTrue, Reason: "Running",
			Message: "generation 2 is running", ObservedGeneration: 2}}}

	examplePlugin = rest.Plugin{Name: "builtin:log@v1.0.0", Summary: "Writes records to the log.", Description: "",
		Version: "v1.0.0", Author: "conduit",
		DestinationParams: map[string]rest.Parameter{"level": {Default: "info", Description: "Level of the entries.",
			Type:        "TYPE_STRING",
			Validations: []rest.ParameterRule{{Type: "TYPE_INCLUSION", Value: "trace,debug,info,warn,error"}}}},
		SourceParams: map[string]rest.Parameter{}}
	exampleRecord = rest.Inspected{Result: &rest.InspectedRecord{Position: []byte("2"), Operation: "OPERATION_CREATE",
		Metadata: map[string]string{"conduit.source.connector.id": "orders:shop"},
		Key:      &rest.InspectedData{RawData: []byte("hi")},
		Payload:  rest.InspectedPayload{After: &rest.InspectedData{StructuredData: map[string]any{"id": 1}}}}}

	exampleFileState = spec.FileState{Path: "orders.yaml", Hash: "9f86d081", Pipelines: []string{"orders"},
		SeenAt: exampleTime}
	examplePlanRequest = spec.PlanRequest{Files: []spec.PlanFile{{Path: "orders.yaml", Content: exampleFile}}}
	examplePlan        = spec.Plan{Pipelines: []spec.PlannedPipeline{{ID: "orders", Action: spec.ActionChange,
		Effect: spec.EffectRestart,
		From:   spec.StatusRunning, To: spec.StatusRunning, File: "orders.yaml", Line: 3,
		Changes: []spec.PlannedChange{{Change: spec.Change{Path: "/connectors/shop/settings/rate",
			Action: spec.ActionChange, Effect: spec.EffectRestart}, Line: 9, Column: 17}}}},
		Problems: []spec.Problem{}, Files: 1, DeletionGrace: "10s", CleanupDelay: "10m"}
	exampleDryRunRequest = spec.DryRunRequest{File: exampleFile,
		Records: []json.RawMessage{json.RawMessage(`{"payload":{"after":{"id":1}}}`)}, Advance: "1m"}
	exampleDryRun = spec.DryRun{Records: []spec.DryRunRecord{{Number: 1,
		Steps: []spec.DryRunStep{{Processor: "orders:mark", Diff: []string{`+ .Metadata.shop: "bern"`},
			Records: exampleDried}}}},
		Destinations: map[string][]json.RawMessage{"warehouse": exampleDried}, DeadLetters: []spec.DryRunDeadLetter{}}
	exampleDried = []json.RawMessage{json.RawMessage(
		`{"position":"MQ==","operation":"create","metadata":{"shop":"bern"},"key":null,` +
			`"payload":{"before":null,"after":{"id":1}}}`,
	)}

	exampleEvent = spec.Event{ID: 7, At: exampleTime, Pipeline: "orders", Type: spec.EventNormal, Reason: "Started",
		Message: "runs generation 2"}
	exampleInfo      = rest.Info{Version: "v0.1.0", OS: "linux", Arch: "amd64"}
	exampleHealth    = rest.Health{Status: "SERVING"}
	exampleReadiness = rest.Readiness{Status: "ready", Directory: &spec.Directory{State: spec.DirectoryOK,
		Since: exampleTime}, Pipelines: &rest.ReadyPipelines{Total: 2, Running: 2}}
	exampleMetrics = "# HELP conduit_pipelines Number of pipelines by status.\n# TYPE conduit_pipelines " +
		"gauge\nconduit_pipelines{status=\"running\"} 2\n"
)

// exampleErrors has an error for each status.
var exampleErrors = []*rest.Error{
	fieldError(spec.CodeUnknown, "config.nme", "config.nme is not a field of this request").Suggest("did you mean %q?",
		"name"),
	guard.TokenNeeded(),
	guard.ReadOnly(),
	rest.Errorf(rest.NotFound, rest.ReasonPipelineNotFound, "pipeline %q not found",
		"orders").Suggest("GET /v1/pipelines lists the pipelines"),
	ownedByFile(&spec.Declaration{Pipeline: exampleDeclared,
		Owner: spec.Owner{Kind: spec.OwnerFile, Path: "orders.yaml", Line: 3}}),
	outOfDate(),
	tooLarge(),
	notJSON(),
	rest.Errorf(rest.Misdirected, rest.ReasonHost, "the Host header %q is not a name of this server",
		"example.org").Suggest("use localhost, or add the name to api.allowed-hosts"),
	rest.Errorf(rest.ResourceExhausted, rest.ReasonTooMany,
		"too many wrong tokens came from this address").Suggest("send a valid token, or wait a second"),
	rest.Errorf(rest.Internal, rest.ReasonInternal, "this is a fault of the agent; see its log"),
	rest.Errorf(rest.Unimplemented, rest.ReasonUnimplemented,
		"processor %q cannot be inspected: the agent has no processor plugins, so no records pass through it",
		"orders:mark"),
	rest.Errorf(rest.Unavailable, rest.ReasonTooMany, "the limit of %d connections is reached",
		guard.MaxConns).Suggest("close some, or try again later"),
	rest.Errorf(rest.DeadlineExceeded, rest.ReasonTimeout,
		"pipeline orders is stopping, but not completed after 25s").Suggest("the operation continues; query its " +
		"status, or set a longer ?wait="),
}

var (
	exampleProcessorPlugin = rest.ProcessorPlugin{Name: "builtin:field.set@v1.0.0", Summary: "Sets a field.",
		Version: "v1.0.0", Author: "conduit",
		Parameters: map[string]rest.Parameter{"field": {Description: "The field.", Type: "TYPE_STRING",
			Validations: []rest.ParameterRule{{Type: "TYPE_REQUIRED"}}}}}
	exampleWatch = "event: session\ndata: {\"role\":\"admin\"}\n\nevent: rates\ndata: []\n\n"
	exampleAgent = rest.Agent{Version: "v1.0.0", OS: "linux", Arch: "arm64", Host: "edge-7", PID: 812,
		StartedAt: exampleTime, Address: "127.0.0.1:8080", Unit: "conduit.service", Goroutines: 61,
		Memory: rest.Memory{Resident: 23 << 20, Limit: 64 << 20}, Store: rest.Store{Path: "/var/lib/conduit/conduit.db",
			Bytes: 1 << 20, WALBytes: 4 << 20, DiskFree: 20 << 30, DiskTotal: 32 << 30},
		Settings: []rest.Setting{{Name: "db.commit-interval", Value: "50ms", Origin: "default"}}}
	exampleCluster = spec.Cluster{Name: "edge", Member: "m1", State: spec.MembershipJoined,
		Members: []spec.ClusterMember{{Name: "m1", Version: "v1.0.0", Labels: map[string]string{"zone": "a"},
			Capacity: 1, State: "live", StartedAt: exampleTime, Pipelines: 1, Address: "10.0.0.1:8080",
			DeadLetters: 3}},
		Pipelines: []spec.ClusterPipeline{
			{ID: "orders", Assignment: spec.Assignment{Member: "m1", Since: &exampleTime, From: "m2",
				Reason: "TookOver"},
				Epoch: 17, Digest: "9f86d081", LagSeconds: 0.01,
				DeadLetters: []spec.MemberDeadLetters{{Member: "m1", Address: "10.0.0.1:8080", Count: 3}},
				Terms: &spec.EffectiveTerms{Mode: spec.ClusterRelaxed, Labels: map[string]string{"zone": "a"},
					Eligible: true}},
			{ID: "readings", Instance: 2,
				Assignment: spec.Assignment{Member: "m1", Since: &exampleTime, Reason: "Claimed"},
				Epoch:      19, Digest: "9f86d081",
				Terms: &spec.EffectiveTerms{Mode: spec.ClusterStrict, Eligible: true, Instances: "3"}},
		}}
	exampleFileContent   = rest.FileContent{Path: "orders.yaml", Content: exampleFile}
	exampleEditorRequest = rest.EditorRequest{Path: "orders.yaml",
		Content: "version: \"2.2\"\npipelines:\n  - id: orders\n    sta", Line: 4, Column: 8}
	exampleEditorAnswer = rest.EditorAnswer{Problems: []spec.Problem{},
		Completions: []rest.Completion{{Label: "status", Detail: "Whether the pipeline should run.", Insert: "status: ",
			Replace: 3}}, Documents: []rest.PipelineDocument{}}
)
