package cli

import (
	"net/http"
	"time"
)

// answerTimeout is how long an agent may take to begin an answer to a question, also one that has 1 % of a CPU. What takes
// the connection and says nothing for longer is no agent, or one that is stopped.
const answerTimeout = 30 * time.Second

// prompt asks questions of agents. What an agent is to do, it does before it answers, and may take any time.
type prompt struct {
	questions, others http.RoundTripper
}

// Promptly returns t with a limit for the answers to questions.
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
