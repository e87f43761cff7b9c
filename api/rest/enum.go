package rest

import (
	"encoding/json"
	"reflect"
	"strconv"
)

// unmarshalEnum reads a value of T from its name, or from its number in numbers, where the
// first stands for none. A name that T does not have is kept, for the server to refuse it
// together with what it belongs to.
func unmarshalEnum[T ~string](b []byte, to *T, numbers ...T) error {
	var name string
	if err := json.Unmarshal(b, &name); err == nil {
		if string(b) != "null" {
			*to = T(name)
		}
		return nil
	}
	n, err := strconv.Atoi(string(b))
	if err != nil || n < 0 || n >= len(numbers) {
		return &json.UnmarshalTypeError{Value: string(b), Type: reflect.TypeFor[string]()} // which the decoder completes
	}
	*to = numbers[n]
	return nil
}

// UnmarshalJSON reads a name or a number.
func (t *ConnectorType) UnmarshalJSON(b []byte) error {
	return unmarshalEnum(b, t, "", TypeSource, TypeDestination)
}

// UnmarshalJSON reads a name or a number.
func (t *ParentType) UnmarshalJSON(b []byte) error {
	return unmarshalEnum(b, t, "", ParentConnector, ParentPipeline)
}

// UnmarshalJSON reads a name or a number.
func (c *PipelineStatusCode) UnmarshalJSON(b []byte) error {
	return unmarshalEnum(b, c, StatusUnspecified, StatusRunning, StatusStopped, StatusDegraded, StatusRecovering)
}
