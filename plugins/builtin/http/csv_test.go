package http_test

import (
	"fmt"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/record"
)

func objectsOf(records []record.Record) (all []map[string]any) {
	for i := range records {
		m, _ := records[i].After.Structured()
		all = append(all, m)
	}
	return all
}

func TestBodyOfCSV(t *testing.T) {
	t.Parallel()
	s, addr := listening(t, map[string]string{"body.format": "csv", "csv.types": "id:int", "csv.delimiter": ";"})
	answers := post(t, addr, "id;name\n1;\"Lamp;\nround\"\n\n2;Chair\n", "Content-Type", "text/csv; charset=iso-8859-1")
	got := plugintest.Read(t, s, 2)
	want := []map[string]any{{"id": int64(1), "name": "Lamp;\nround"}, {"id": int64(2), "name": "Chair"}}
	if diff := cmp.Diff(want, objectsOf(got)); diff != "" {
		t.Error(diff)
	}
	if err := s.Ack(t.Context(), positions(got)); err != nil {
		t.Fatal(err)
	}
	if a := <-answers; a.status != nethttp.StatusNoContent {
		t.Errorf("the answer is %+v", a)
	}
	for body, status := range map[string]int{"": 204, "id;name\n": 204, "id;name\n1\n": 400, "id;id\n": 400,
		"id;name\nx;y\n": 400, "id;name\n1;\"\n": 400} {
		if a := <-post(t, addr, body); a.status != status {
			t.Errorf("%q: the answer is %+v, want %d", body, a, status)
		}
	}
}

func TestResponseOfCSV(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		_, _ = io.WriteString(w, "1,Lamp\nx,Table\n2,Chair\n")
	}))
	t.Cleanup(server.Close)
	s := source(t, map[string]string{"url": server.URL, "body.format": "csv", "csv.columns": "id,name",
		"csv.types": "id:int"}, nil)
	want := []map[string]any{{"id": int64(1), "name": "Lamp"}, {"id": int64(2), "name": "Chair"}}
	if diff := cmp.Diff(want, objectsOf(plugintest.Read(t, s, 2))); diff != "" {
		t.Error(diff)
	}
	if skipped := fmt.Sprint(s.Progress().Skipped); !strings.Contains(skipped, "element 2") {
		t.Errorf("skipped are %s", skipped)
	}
}
