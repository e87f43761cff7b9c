package rest

import (
	"reflect"

	"github.com/conduit-agent/conduit/spec"
)

// Values lists the values of those types in package spec that appear in answers and do not list their values
// themselves.
var Values = map[reflect.Type][]string{
	reflect.TypeFor[spec.Status]():        {"running", "stopped"},
	reflect.TypeFor[spec.ConnectorType](): {"source", "destination"},
	reflect.TypeFor[spec.OwnerKind]():     {"file", "api"},
	reflect.TypeFor[spec.Phase]():         {"stopped", "starting", "running", "stopping", "recovering", "degraded"},
	reflect.TypeFor[spec.Severity]():      {"error", "warning"},
	reflect.TypeFor[spec.Action]():        {"add", "remove", "change"},
	reflect.TypeFor[spec.Effect]():        {"none", "in-place", "restart-destination", "restart", "position-lost"},
	reflect.TypeFor[spec.ConditionType](): {"Valid", "Applied", "Ready", "Delivering", "Draining", "Conflict",
		"RolledBack", "PluginChanged"},
	reflect.TypeFor[spec.DeadLetterStage](): {"source-processor", "pipeline-processor", "destination-processor",
		"destination"},
}
