package cli

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// A read from a server that accepts the connection and never answers is soon given up; a write may take any time.
func TestQuestionsAreGivenUp(t *testing.T) {
	for method, most := range map[string]time.Duration{http.MethodGet: 30 * time.Second, http.MethodPost: time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			mute := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, theirs) }()
				return ours, nil
			}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, method, "http://agent/readyz", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			answer, err := Promptly(mute).RoundTrip(r)
			if err == nil {
				answer.Body.Close()
			}
			if took := time.Since(began); took != most || err == nil {
				t.Errorf("%s: %v after %v, want it given up after %v", method, err, took, most)
			}
		})
	}
}
