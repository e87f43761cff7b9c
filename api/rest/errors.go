package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

// Kind is a class of errors: its HTTP status, and its code in the numbering of google.rpc.Code, which the body carries.
type Kind struct {
	HTTP int
	Code int
}

// The kinds of errors, used by the server and expected by the client.
var (
	InvalidArgument    = Kind{http.StatusBadRequest, 3}
	FailedPrecondition = Kind{http.StatusBadRequest, 9}
	Unauthenticated    = Kind{http.StatusUnauthorized, 16}
	PermissionDenied   = Kind{http.StatusForbidden, 7}
	NotFound           = Kind{http.StatusNotFound, 5}
	MethodNotAllowed   = Kind{http.StatusMethodNotAllowed, 12}
	AlreadyExists      = Kind{http.StatusConflict, 6}
	NotOwner           = Kind{http.StatusConflict, 9} // another owner declares it
	Aborted            = Kind{http.StatusConflict, 10}
	PreconditionFailed = Kind{http.StatusPreconditionFailed, 9}
	TooLarge           = Kind{http.StatusRequestEntityTooLarge, 3}
	UnsupportedMedia   = Kind{http.StatusUnsupportedMediaType, 3}
	Misdirected        = Kind{http.StatusMisdirectedRequest, 7}
	ResourceExhausted  = Kind{http.StatusTooManyRequests, 8}
	Internal           = Kind{http.StatusInternalServerError, 13}
	Unimplemented      = Kind{http.StatusNotImplemented, 12}
	Unavailable        = Kind{http.StatusServiceUnavailable, 14}
	DeadlineExceeded   = Kind{http.StatusGatewayTimeout, 4}
)

// Reasons of errors. They are stable: programs may branch on them. An error about a
// field has one of the codes of spec.Problem instead.
const (
	ReasonPipelineNotFound     = "pipeline.instance_not_found"
	ReasonPipelineNameMissing  = "pipeline.name_missing"
	ReasonPipelineNameExists   = "pipeline.name_already_exists"
	ReasonPipelineExists       = spec.CodePipelineExists
	ReasonPipelineRunning      = spec.CodePipelineRunning
	ReasonPipelineNotRunning   = "pipeline.not_running"
	ReasonPipelineStartFailed  = "pipeline.start_failed"
	ReasonPipelineBeingDeleted = spec.CodePipelineDeleting
	ReasonPipelineOverruled    = "pipeline.status_changed"
	ReasonPipelineElsewhere    = "pipeline.runs_elsewhere"
	ReasonPipelineInstances    = spec.CodePipelineInstances
	ReasonDeadLettersElsewhere = "dead_letters.elsewhere"
	ReasonAlone                = "cluster.alone"
	ReasonNoTarget             = "notify.no_target"
	ReasonCluster              = spec.CodeCluster
	ReasonPipelineNotDeleted   = "pipeline.not_deleted"
	ReasonPipelineConnectors   = "orchestrator.pipeline_has_connectors_attached"
	ReasonPipelineProcessors   = "orchestrator.pipeline_has_processors_attached"
	ReasonConnectorNotFound    = "connector.instance_not_found"
	ReasonConnectorExists      = "connector.already_exists"
	ReasonConnectorType        = "connector.invalid_type"
	ReasonConnectorProcessors  = "orchestrator.connector_has_processors_attached"
	ReasonConnectorRefused     = "connector.configuration_refused"
	ReasonConnectorCleaning    = "connector.being_cleaned_up"
	ReasonConnectorCleanUp     = "connector.cleanup_failed"
	ReasonPluginNotFound       = "connector.plugin_not_found"
	ReasonProcessorNotFound    = "processor.instance_not_found"
	ReasonProcessorExists      = "processor.already_exists"
	ReasonProcessorParent      = "orchestrator.invalid_processor_parent_type"
	ReasonOwnedByFile          = "orchestrator.immutable_provisioned_by_config"
	ReasonNoFile               = "pipeline.no_file_declares_it"
	ReasonRevisionNotFound     = "pipeline.revision_not_found"
	ReasonFileNotWritten       = "pipeline.file_not_written"
	ReasonPlanStale            = "provisioning.plan_stale"
	ReasonChanged              = "request.resource_changed"
	ReasonBusy                 = "request.busy"
	ReasonKeyReused            = "request.idempotency_key_reused"
	ReasonInvalid              = "common.invalid_argument"
	ReasonNotFound             = "common.not_found"
	ReasonUnavailable          = "common.unavailable"
	ReasonStore                = "agent.store_unusable"
	ReasonUnimplemented        = "common.unimplemented"
	ReasonParse                = "config.parse_error"
	ReasonHost                 = "request.host_not_allowed"
	ReasonOrigin               = "request.cross_origin"
	ReasonMediaType            = "request.media_type"
	ReasonTooLarge             = "request.too_large"
	ReasonMethod               = "request.method_not_allowed"
	ReasonUnauthenticated      = "request.unauthenticated"
	ReasonForbidden            = "request.forbidden"
	ReasonTooMany              = spec.CodeTooMany
	ReasonTimeout              = "request.timeout"
	ReasonInternal             = "internal.error"
)

// Error is an error of the API. Its JSON form is a google.rpc.Status with an ErrorInfo and, when fields are faulty, a
// BadRequest.
type Error struct {
	Kind
	Reason  string
	Message string
	// Metadata has details: configPath is the faulty field, suggestion a remedy, file and line the place of the
	// declaration.
	Metadata   map[string]string
	Violations []Violation
}

// Violation is a faulty field.
type Violation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

// Errorf returns an error with this kind, reason and message.
func Errorf(kind Kind, reason, format string, args ...any) *Error {
	return &Error{Kind: kind, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// With adds a pair of metadata and returns e.
func (e *Error) With(key, value string) *Error {
	if value == "" {
		return e
	}
	if e.Metadata == nil {
		e.Metadata = map[string]string{}
	}
	e.Metadata[key] = value
	return e
}

// Suggest adds a remedy to the error and returns e.
func (e *Error) Suggest(format string, args ...any) *Error {
	return e.With("suggestion", fmt.Sprintf(format, args...))
}

// Error returns the message, and the suggestion if there is one.
func (e *Error) Error() string {
	if s := e.Metadata["suggestion"]; s != "" {
		return e.Message + " (" + s + ")"
	}
	return e.Message
}

// The types of details in the body.
const (
	typeErrorInfo  = "type.googleapis.com/google.rpc.ErrorInfo"
	typeBadRequest = "type.googleapis.com/google.rpc.BadRequest"
	domain         = "conduit"
)

// Status is the body of an error.
type Status struct {
	// Error code in the numbering of google.rpc.Code.
	Code    int      `json:"code"`
	Message string   `json:"message"`
	Details []Detail `json:"details"`
}

// Detail is an ErrorInfo or a BadRequest, according to Type.
type Detail struct {
	Type string `json:"@type"`
	// Stable name of the error.
	Reason string `json:"reason,omitempty"`
	Domain string `json:"domain,omitempty"`
	// configPath: the faulty field; suggestion: a remedy.
	Metadata   map[string]string `json:"metadata,omitzero"`
	Violations []Violation       `json:"fieldViolations,omitempty"`
}

// Body returns the body of the response for e.
func (e *Error) Body() Status {
	metadata := e.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	details := []Detail{{Type: typeErrorInfo, Reason: e.Reason, Domain: domain, Metadata: metadata}}
	if len(e.Violations) > 0 {
		violations := slices.Clone(e.Violations)
		for i := range violations {
			violations[i].Description = texts.TruncateError(violations[i].Description)
		}
		details = append(details, Detail{Type: typeBadRequest, Violations: violations})
	}
	return Status{Code: e.Code, Message: texts.TruncateError(e.Message), Details: details}
}

// ParseError reads an error with this HTTP status from its body. It accepts any body: a body that is no
// google.rpc.Status becomes the message.
func ParseError(status int, body []byte) *Error {
	e := &Error{Kind: Kind{HTTP: status, Code: 2}}
	var s Status
	if err := json.Unmarshal(body, &s); err != nil || s.Message == "" {
		e.Message = fmt.Sprintf("%s: %.200s", http.StatusText(status), body)
		return e
	}
	e.Code, e.Message = s.Code, s.Message
	for _, d := range s.Details {
		switch d.Type {
		case typeErrorInfo:
			e.Reason, e.Metadata = d.Reason, d.Metadata
		case typeBadRequest:
			e.Violations = d.Violations
		}
	}
	return e
}
