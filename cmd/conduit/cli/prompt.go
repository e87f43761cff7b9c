package cli

import (
	"net/http"
	"time"
)

// answerTimeout is how long an agent, even with 1 % of a CPU, may take to begin the answer to a read. A server that
// accepts the connection and is silent for longer is no agent, or a stopped one.
const answerTimeout = 30 * time.Second

// prompt limits the time for reads of an agent. The agent answers other requests after performing them, so they may
// take any time.
type prompt struct {
	questions, others http.RoundTripper
}

// Promptly returns t with a time limit for reads.
func Promptly(t *http.Transport) http.RoundTripper {
	questions := t.Clone()
	questions.ResponseHeaderTimeout = answerTimeout
	return prompt{questions, t}
}

// RoundTrip implements http.RoundTripper.
func (p prompt) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return p.questions.RoundTrip(r)
	}
	return p.others.RoundTrip(r)
}
