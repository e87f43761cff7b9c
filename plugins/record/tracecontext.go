package record

import "strings"

// maxTraceState is the maximum length of a tracestate that is kept, in bytes. W3C Trace Context requires 512.
const maxTraceState = 4 << 10

// SetTraceContext sets the W3C trace context of a record from the headers traceparent and tracestate of the message
// that it was made of. It ignores an invalid traceparent, and then also tracestate.
func (m *Metadata) SetTraceContext(traceparent, tracestate string) {
	if !ValidTraceParent(traceparent) {
		return
	}
	m.Set(KeyTraceParent, traceparent)
	if tracestate != "" && len(tracestate) <= maxTraceState && isPrintable(tracestate) {
		m.Set(KeyTraceState, tracestate)
	}
}

// TraceContext returns the W3C trace context of a record for the headers of a message: "" without a valid one.
func (m Metadata) TraceContext() (traceparent, tracestate string) {
	if traceparent = m.Get(KeyTraceParent); !ValidTraceParent(traceparent) {
		return "", ""
	}
	if tracestate = m.Get(KeyTraceState); len(tracestate) > maxTraceState || !isPrintable(tracestate) {
		tracestate = ""
	}
	return traceparent, tracestate
}

// ValidTraceParent reports whether text is a traceparent of W3C Trace Context:
// version-traceid-parentid-flags, all in lower-case hexadecimal.
func ValidTraceParent(text string) bool {
	const length = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	if len(text) < length || len(text) > length && (text[length] != '-' || text[:2] == "00") || len(text) > 512 {
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
		isPrintable(text)
}

// isPrintable reports whether text has only visible ASCII characters and spaces.
func isPrintable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
