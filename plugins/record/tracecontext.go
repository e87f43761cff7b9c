package record

import "strings"

// Maximum lengths in bytes. W3C Trace Context requires 512 for a tracestate.
const (
	maxTraceParent = 512
	maxTraceState  = 4 << 10
)

// SetTraceContext sets the trace context of a record from the headers traceparent and tracestate of a message, in the
// form of W3C Trace Context. It ignores an invalid traceparent together with its tracestate.
func (m *Metadata) SetTraceContext(parent, state string) {
	if !validTraceParent(parent) {
		return
	}
	m.Set(KeyTraceParent, parent)
	if validTraceState(state) {
		m.Set(KeyTraceState, state)
	}
}

// TraceContext returns the trace context of a record for the headers traceparent and tracestate of a message. Both are
// empty if the record has no valid context.
func (m Metadata) TraceContext() (parent, state string) {
	for i := len(m) - 1; i >= 0 && m[i].Key >= KeyTraceParent; i-- { // few keys follow in the order
		switch m[i].Key {
		case KeyTraceParent:
			parent = m[i].Value
		case KeyTraceState:
			state = m[i].Value
		}
	}
	if !validTraceParent(parent) {
		return "", ""
	}
	if !validTraceState(state) {
		state = ""
	}
	return parent, state
}

// TraceContext returns the trace context that all records have, for a message with several records. Both are empty if
// there is none.
func TraceContext(records []Record) (parent, state string) {
	for i := range records {
		p, s := records[i].Metadata.TraceContext()
		if p == "" || i > 0 && (p != parent || s != state) {
			return "", ""
		}
		parent, state = p, s
	}
	return parent, state
}

// validTraceParent reports whether text is version-trace-parent-flags in lower-case hexadecimal. Later versions may
// have more behind that.
func validTraceParent(text string) bool {
	const length = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	if len(text) < length || len(text) > maxTraceParent ||
		len(text) > length && (text[length] != '-' || text[:2] == "00") {
		return false
	}
	for i := range length {
		switch c := text[i]; {
		case i == 2 || i == 35 || i == 52:
			if c != '-' {
				return false
			}
		case (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return text[:2] != "ff" && strings.Trim(text[3:35], "0") != "" && strings.Trim(text[36:52], "0") != "" &&
		isVisible(text)
}

func validTraceState(text string) bool {
	return text != "" && len(text) <= maxTraceState && isVisible(text)
}

// isVisible reports whether text has only visible ASCII characters and spaces, as a header requires.
func isVisible(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
