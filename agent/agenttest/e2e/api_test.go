package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// web is an agent under test and what a client sees of it.
type web struct {
	*agenttest.Agent
	t   testing.TB
	api *client.Client
}

func startWeb(t testing.TB, dir string, change ...func(*config.Config)) *web {
	t.Helper()
	a := agenttest.Start(t, dir, change...)
	return &web{Agent: a, t: t, api: &client.Client{URL: "http://" + a.Address()}}
}

// answer is what the agent says to a request.
type answer struct {
	status int
	header http.Header
	body   string
}

// reason returns the reason of an error, and the field it is about.
func (a *answer) reason() (reason, field string) {
	var e struct {
		Details []struct {
			Reason   string
			Metadata map[string]string
		}
	}
	if json.Unmarshal([]byte(a.body), &e) != nil || len(e.Details) == 0 {
		return "", ""
	}
	return e.Details[0].Reason, e.Details[0].Metadata["configPath"]
}

// do sends a request with a JSON body, "" standing for none. headers are names and
// values, Host included; an empty value removes the header.
func (w *web) do(method, path, body string, headers ...string) *answer {
	w.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.api.URL+path, r)
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		switch name, value := headers[i], headers[i+1]; {
		case name == "Host":
			request.Host = value
		case value == "":
			request.Header.Del(name)
		default:
			request.Header.Set(name, value)
		}
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	return &answer{response.StatusCode, response.Header, string(text)}
}

// must sends a request that is to succeed and reads its answer into out unless that is nil.
func (w *web) must(method, path, body string, out any) {
	w.t.Helper()
	got := w.do(method, path, body)
	if got.status != http.StatusOK {
		w.t.Fatalf("%s %s: %d %s", method, path, got.status, got.body)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal([]byte(got.body), out); err != nil {
		w.t.Fatalf("%s %s: %v in %s", method, path, err, got.body)
	}
}

var errSeen = errors.New("seen")

// records inspects a connector over WebSocket until n records passed.
func (w *web) records(connector string, n int) (all []json.RawMessage) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), wait.Limit)
	defer cancel()
	err := w.api.Inspect(ctx, connector, nil, func(m client.Message) error {
		if m.Result != nil {
			all = append(all, m.Result)
		}
		if len(all) == n {
			return errSeen
		}
		return nil
	})
	if err != errSeen {
		w.t.Fatalf("inspecting %s ended after %d records: %v", connector, len(all), err)
	}
	return all
}
