package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

// schemaSet holds the JSON Schemas of types.
type schemaSet struct {
	named map[string]any
	types map[string]reflect.Type // by the name of the schema
}

// schemaValues are the values of the string types without a method Enum that lists them.
var schemaValues = map[reflect.Type][]string{
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

// schemaNames are the names of schemas that differ from the names of their types. Clients that are generated from the
// document use these names, so a schema keeps its name when its type is renamed.
var schemaNames = map[reflect.Type]string{
	reflect.TypeFor[rest.DeadLetterQueue]():         "DLQ",
	reflect.TypeFor[rest.DeadLetterQueueDocument](): "DLQDocument",
	reflect.TypeFor[spec.Assignment]():              "Placement",
	reflect.TypeFor[spec.EffectiveTerms]():          "ClusterTerms",
	reflect.TypeFor[spec.InstanceAssignment]():      "InstancePlacement",
	reflect.TypeFor[spec.RunningInstances]():        "Instances",
	reflect.TypeFor[spec.Attempt]():                 "SpecAttempt",
	reflect.TypeFor[spec.Condition]():               "SpecCondition",
	reflect.TypeFor[spec.Connector]():               "SpecConnector",
	reflect.TypeFor[spec.DeadLetterQueue]():         "SpecDLQ",
	reflect.TypeFor[spec.Directory]():               "SpecDirectory",
	reflect.TypeFor[spec.Event]():                   "SpecEvent",
	reflect.TypeFor[spec.FileState]():               "SpecFileState",
	reflect.TypeFor[spec.LastGood]():                "SpecLastGood",
	reflect.TypeFor[spec.Owner]():                   "SpecOwner",
	reflect.TypeFor[spec.Pipeline]():                "SpecPipeline",
	reflect.TypeFor[spec.Placement]():               "SpecPlacement",
	reflect.TypeFor[spec.Problem]():                 "SpecProblem",
	reflect.TypeFor[spec.Processor]():               "SpecProcessor",
	reflect.TypeFor[spec.Revision]():                "SpecRevision",
	reflect.TypeFor[spec.Stall]():                   "SpecStall",
	reflect.TypeFor[spec.State]():                   "SpecState",
}

// schemaOf returns the schema of example's type.
func (s schemaSet) schemaOf(example any) map[string]any {
	if example == nil {
		return map[string]any{}
	}
	return s.schema(reflect.TypeOf(example))
}

var (
	timeType      = reflect.TypeFor[time.Time]()
	rawType       = reflect.TypeFor[json.RawMessage]()
	marshalerType = reflect.TypeFor[json.Marshaler]()
)

func (s schemaSet) schema(t reflect.Type) map[string]any {
	if enum, ok := reflect.Zero(t).Interface().(interface{ Enum() []string }); ok {
		return map[string]any{"type": "string", "enum": enum.Enum()}
	}
	if values := schemaValues[t]; values != nil {
		return map[string]any{"type": "string", "enum": values}
	}
	switch {
	case t == rawType:
		return map[string]any{}
	case t == timeType:
		return map[string]any{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Uint64 && t.Implements(marshalerType): // 64-bit numbers are text
		return map[string]any{"type": "string", "pattern": "^[0-9]+$"}
	case t == reflect.TypeFor[[]*float64](): // with gaps
		return map[string]any{"type": "array", "items": map[string]any{"type": []string{"number", "null"}}}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return map[string]any{"type": "string", "contentEncoding": "base64"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.schema(t.Elem())
	case reflect.Slice:
		return map[string]any{"type": "array", "items": s.schema(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.schema(t.Elem())}
	case reflect.Struct:
		return s.reference(t)
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Interface:
		return map[string]any{}
	}
	return map[string]any{"type": "integer"}
}

// reference returns a reference to the schema of a struct, which it adds, or the schema
// itself when the struct has no name.
func (s schemaSet) reference(t reflect.Type) map[string]any {
	name := t.Name()
	if name == "" {
		return s.object(t)
	}
	if given, ok := schemaNames[t]; ok {
		name = given
	}
	if other := s.types[name]; other != nil && other != t {
		panic(fmt.Sprintf("the schemas of %v and %v have the same name", other, t))
	}
	if s.named[name] == nil {
		s.named[name], s.types[name] = true, t // a type may contain itself
		s.named[name] = s.object(t)
	}
	return map[string]any{"$ref": "#/components/schemas/" + name}
}

func (s schemaSet) object(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || f.Anonymous || name == "-" || name == "" {
			continue
		}
		property := s.schema(f.Type)
		if f.Type.Kind() == reflect.Pointer && !strings.Contains(options, "omit") {
			property = map[string]any{"anyOf": []any{property, map[string]any{"type": "null"}}}
		}
		if text := texts.Description(descriptions, ownerOf(t, f).String(), name); text != "" {
			property["description"] = text
		}
		properties[name] = property
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

// descriptions has the descriptions of fields.
const descriptions = rest.Descriptions + spec.Descriptions + progress.Descriptions

// ownerOf returns the struct that declares f, a field of t: t, or a struct embedded in it.
func ownerOf(t reflect.Type, f reflect.StructField) reflect.Type {
	if len(f.Index) == 1 {
		return t
	}
	owner := t.FieldByIndex(f.Index[:len(f.Index)-1]).Type
	if owner.Kind() == reflect.Pointer {
		owner = owner.Elem()
	}
	return owner
}
