package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// A receiver counts the missing, repeated and torn logs, in any form and encoding.
func TestReceiver(t *testing.T) {
	r, err := newReceiver()
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	text := func(pod, seq int) string {
		_, text, _ := strings.Cut(string(appendLine(nil, time.Now(), pod, seq)), " stdout F ")
		return strings.TrimSuffix(text, "\n")
	}
	if got := len(text(99, 123456)); got != logSize {
		t.Errorf("a log has %d bytes", got)
	}
	quoted, _ := json.Marshal(map[string]string{"message": text(0, 2)})
	body := strings.Join([]string{text(0, 0), text(0, 1), string(quoted), text(1, 0), text(1, 0), // repeated
		text(2, 5)[:100], // torn
		strings.Replace(text(2, 6), "\":6", "\":7", 1), // torn: another number
	}, "\n")
	for _, encoding := range []string{"", "gzip"} {
		var buf bytes.Buffer
		var w io.Writer = &buf
		if encoding == "gzip" {
			w = gzip.NewWriter(&buf)
		}
		_, _ = io.WriteString(w, body)
		if z, ok := w.(*gzip.Writer); ok {
			_ = z.Close()
		}
		q, _ := http.NewRequest(http.MethodPost, r.url(), &buf)
		q.Header.Set("Content-Encoding", encoding)
		answer, err := http.DefaultClient.Do(q)
		if err != nil || answer.StatusCode != http.StatusNoContent {
			t.Fatal(answer, err)
		}
		_ = answer.Body.Close()
	}
	if r.logs != 4 || r.repeated != 1+5 || r.torn != 2*2 {
		t.Errorf("%d logs, %d repeated, %d torn", r.logs, r.repeated, r.torn)
	}
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.port()))
	if err != nil {
		t.Fatal(err)
	}
	line := text(3, 0) + "\n" + text(3, 1)
	_, _ = io.WriteString(c, line[:300])
	_, _ = io.WriteString(c, line[300:])
	_ = c.Close()
	wait.For(t, "the logs of a connection", func() bool { return r.count() == 6 })
	if got := r.missing([]int{3, 2, 0, 3}); got != 2 {
		t.Errorf("%d are missing", got)
	}
}

// Rotation loses no log that the kubelet still keeps.
func TestRotation(t *testing.T) {
	p, err := newPods(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	one := p.all[7]
	at := time.Now()
	var rotated int
	for range 4 * maxLogSize / 260 {
		if err := p.write(one, at); err != nil {
			t.Fatal(err)
		}
		if one.size >= maxLogSize && one.stale == 0 {
			rotated++
			if err := one.rotate(at.Add(time.Duration(rotated) * time.Second)); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, err := newReceiver()
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	files, _ := filepath.Glob(one.path + "*")
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, ".gz") {
			if text, err = r.decode("gzip", text); err != nil {
				t.Fatal(err)
			}
		}
		r.take(text)
	}
	if rotated < 3 || len(files) != rotated+1 || r.logs != one.next || r.repeated+r.torn > 0 {
		t.Errorf("rotated %d times into %q: %d logs of %d, %d repeated, %d torn", rotated, files, r.logs, one.next,
			r.repeated, r.torn)
	}
	if linked, err := os.Stat(filepath.Join(p.dir, "containers", "pod-7_shop_app-"+containerID(7)+".log")); err != nil ||
		linked.Size() != one.size {
		t.Errorf("the link leads to %v, %v", linked, err)
	}
}
