package template

import (
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// metadata is the metadata of a record, with a method for each key that OpenCDC and the agent define. A method fails if
// the key is missing.
type metadata map[string]string

// structured is structured data, with the method Bytes.
type structured map[string]any

// Bytes returns the JSON form of the data.
func (s structured) Bytes() (text, error) {
	b, err := record.Structured(s).MarshalJSON()
	return text(b), err
}

// Bytes returns the raw bytes.
func (t text) Bytes() text { return t }

func (m metadata) text(key string) (string, error) {
	value, ok := m[key]
	if !ok {
		return "", fmt.Errorf("the record has no metadata %q", key)
	}
	return value, nil
}

func (m metadata) number(key string) (int, error) {
	value, err := m.text(key)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		return 0, fmt.Errorf("the metadata %q is no number: %q", key, value)
	}
	return n, nil
}

func (m metadata) time(key string) (time.Time, error) {
	value, err := m.text(key)
	if err != nil {
		return time.Time{}, err
	}
	ns, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("the metadata %q is no time: %q", key, value)
	}
	return time.Unix(0, ns), nil
}

// GetOpenCDCVersion returns the version of the OpenCDC format.
func (m metadata) GetOpenCDCVersion() (string, error) { return m.text(record.KeyVersion) }

// GetCreatedAt returns when the record was created in its source.
func (m metadata) GetCreatedAt() (time.Time, error) { return m.time(record.KeyCreatedAt) }

// GetReadAt returns when the source read the record.
func (m metadata) GetReadAt() (time.Time, error) { return m.time(record.KeyReadAt) }

// GetCollection returns the collection that the record belongs to.
func (m metadata) GetCollection() (string, error) { return m.text(record.KeyCollection) }

// GetKeySchemaSubject returns the subject of the schema of the key.
func (m metadata) GetKeySchemaSubject() (string, error) { return m.text(record.KeyKeySchemaSubject) }

// GetKeySchemaVersion returns the version of the schema of the key.
func (m metadata) GetKeySchemaVersion() (int, error) { return m.number(record.KeyKeySchemaVersion) }

// GetPayloadSchemaSubject returns the subject of the schema of the payload.
func (m metadata) GetPayloadSchemaSubject() (string, error) {
	return m.text(record.KeyPayloadSchemaSubject)
}

// GetPayloadSchemaVersion returns the version of the schema of the payload.
func (m metadata) GetPayloadSchemaVersion() (int, error) {
	return m.number(record.KeyPayloadSchemaVersion)
}

// GetConduitSourceConnectorID returns the id of the source connector.
func (m metadata) GetConduitSourceConnectorID() (string, error) {
	return m.text(record.KeySourceConnectorID)
}

// GetConduitSourcePluginName returns the name of the source's plugin.
func (m metadata) GetConduitSourcePluginName() (string, error) {
	return m.text(record.KeySourcePluginName)
}

// GetConduitSourcePluginVersion returns the version of the source's plugin.
func (m metadata) GetConduitSourcePluginVersion() (string, error) {
	return m.text(record.KeySourcePluginVersion)
}

// GetConduitDestinationPluginName returns the name of the destination's plugin.
func (m metadata) GetConduitDestinationPluginName() (string, error) {
	return m.text(record.KeyDestinationPluginName)
}

// GetConduitDestinationPluginVersion returns the version of the destination's plugin.
func (m metadata) GetConduitDestinationPluginVersion() (string, error) {
	return m.text(record.KeyDestinationPluginVersion)
}

// GetConduitDLQNackError returns the error of a dead letter.
func (m metadata) GetConduitDLQNackError() (string, error) { return m.text(record.KeyDLQNackError) }

// GetConduitDLQNackNodeID returns the id of the node that refused a dead letter.
func (m metadata) GetConduitDLQNackNodeID() (string, error) { return m.text(record.KeyDLQNackNodeID) }

// textMethods are the keys of the methods of metadata that return a text.
var textMethods = map[string]string{
	"GetOpenCDCVersion":                  record.KeyVersion,
	"GetCollection":                      record.KeyCollection,
	"GetKeySchemaSubject":                record.KeyKeySchemaSubject,
	"GetPayloadSchemaSubject":            record.KeyPayloadSchemaSubject,
	"GetConduitSourceConnectorID":        record.KeySourceConnectorID,
	"GetConduitSourcePluginName":         record.KeySourcePluginName,
	"GetConduitSourcePluginVersion":      record.KeySourcePluginVersion,
	"GetConduitDestinationPluginName":    record.KeyDestinationPluginName,
	"GetConduitDestinationPluginVersion": record.KeyDestinationPluginVersion,
	"GetConduitDLQNackError":             record.KeyDLQNackError,
	"GetConduitDLQNackNodeID":            record.KeyDLQNackNodeID,
}

// metadataMethods are the names of the methods of metadata.
var metadataMethods = func() map[string]bool {
	names := map[string]bool{}
	for m := range reflect.TypeFor[metadata]().Methods() {
		names[m.Name] = true
	}
	return names
}()

// isMethod reports whether the path leads to a method of metadata or of data, which text/template must call.
func isMethod(path []string) bool {
	switch {
	case path[0] == "Metadata" && len(path) > 1:
		return metadataMethods[path[1]]
	case path[0] == "Key" && len(path) > 1:
		return path[1] == "Bytes"
	case path[0] == "Payload" && len(path) > 2:
		return path[2] == "Bytes"
	}
	return false
}

// MarshalJSON returns the data as in the JSON form of a record.
func (s structured) MarshalJSON() ([]byte, error) { return record.AppendValue(nil, map[string]any(s)) }

// toJSON is the function toJson. It fails for values without a JSON form, for which sprig's function returns nothing.
func toJSON(v any) (string, error) {
	b, err := record.AppendValue(nil, v)
	return string(b), err
}
