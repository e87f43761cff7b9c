package rest

import (
	"encoding/json"
	"reflect"
	"strconv"
)

// unmarshalEnum reads a value of T from its name, or from its number, which is an index into numbers; the first element
// stands for none. It keeps an unknown name, so that the server can refuse it together with the field it belongs to.
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
		return &json.UnmarshalTypeError{Value: string(b), Type: reflect.TypeFor[string]()} // the decoder adds more
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
