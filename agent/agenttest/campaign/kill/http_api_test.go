package kill_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
)

// apiAddr, when set, makes the test binary a server that keeps records in its working directory.
const apiAddr = "CONDUIT_KILL_API"

// serveAPI stores the posted lines, each with its key, in a file that it syncs before it answers. It loses nothing when
// it is killed, and does not store a request again whose key it has.
func serveAPI(addr string) error {
	s, err := openAPI()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	h := &http.Server{Handler: withWebSocket(s, withTelemetry(s, withOTLP(s))), Protocols: protocols}
	return h.Serve(l)
}

// openAPI reads the file of an earlier server.
func openAPI() (s *apiServer, err error) {
	s = &apiServer{keys: map[string]bool{}}
	if s.file, err = os.OpenFile("stored", os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(s.file)
	if err != nil {
		return nil, err
	}
	if end := bytes.LastIndexByte(content, '\n') + 1; end < len(content) { // torn by a kill, so never acknowledged
		if err := s.file.Truncate(int64(end)); err != nil {
			return nil, err
		}
		content = content[:end]
	}
	for line := range strings.Lines(string(content)) {
		s.keep(strings.TrimSuffix(line, "\n"))
	}
	return s, nil
}

type apiServer struct {
	file *os.File

	mu    sync.Mutex
	keys  map[string]bool // guarded by mu
	items []string        // guarded by mu
}

func (s *apiServer) keep(line string) {
	key, item, _ := strings.Cut(line, "\t")
	if key != "" {
		s.keys[key] = true
	}
	s.items = append(s.items, item)
}

// ServeHTTP stores lines, or answers with the items after the number since, in pages.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if token, err := os.ReadFile("token"); err != nil || r.Header.Get("Authorization") != "Bearer "+string(token) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodGet {
		s.list(w, r)
		return
	}
	if err := s.store(r.Header.Get("Idempotency-Key"), string(body)); err != nil {
		log.Print(err)
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func (s *apiServer) store(key, body string) error {
	if s.keys[key] {
		return nil
	}
	var text strings.Builder
	var lines []string
	for line := range strings.Lines(body) {
		lines = append(lines, key+"\t"+strings.TrimSuffix(line, "\n"))
		text.WriteString(lines[len(lines)-1] + "\n")
	}
	if _, err := s.file.WriteString(text.String()); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	for _, line := range lines {
		s.keep(line)
	}
	return nil
}

const apiPage = 40

// list answers with the items from the number since on.
func (s *apiServer) list(w http.ResponseWriter, r *http.Request) {
	since, _ := strconv.Atoi(r.URL.Query().Get("since"))
	since = max(since, 1)
	offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
	type entry struct {
		Seq  int             `json:"seq"`
		Item json.RawMessage `json:"item"`
	}
	var page struct {
		Items []entry `json:"items"`
		Next  string  `json:"next,omitempty"`
	}
	first := since - 1 + offset
	for i := first; i < min(len(s.items), first+apiPage); i++ {
		page.Items = append(page.Items, entry{i + 1, json.RawMessage(s.items[i])})
	}
	if first+apiPage < len(s.items) {
		page.Next = strconv.Itoa(offset + apiPage)
	}
	_ = json.NewEncoder(w).Encode(page)
}

// api is the server of a test, with the files that contain its token.
type api struct {
	*server.Process
	addr, dir string
	token     string // path of the file that settings refer to
	n         int    // tokens so far
}

// ownProgram copies the test binary to a directory, as other users may not run the original, and returns the path.
func ownProgram(t *testing.T, dir string) string {
	t.Helper()
	program := filepath.Join(dir, "program")
	binary, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	return program
}

// replaceFiles replaces the content of files, each at once.
func replaceFiles(content []byte, paths ...string) error {
	for _, path := range paths {
		if err := os.WriteFile(path+".new", content, 0o644); err != nil {
			return err
		}
		if err := os.Rename(path+".new", path); err != nil {
			return err
		}
	}
	return nil
}

func startAPI(t *testing.T, dir string) *api {
	t.Helper()
	a := &api{dir: server.Dir(t), addr: fmt.Sprintf("127.0.0.1:%d", network.FreePort(t)),
		token: filepath.Join(dir, "token")}
	if err := a.rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.Process = &server.Process{Path: ownProgram(t, a.dir), Dir: a.dir, Env: []string{apiAddr + "=" + a.addr},
		Ready: func(ctx context.Context) error {
			_, err := a.do(ctx, "GET", "")
			return err
		}}
	a.Launch(t)
	return a
}

// rotate replaces the token, which the server reads for each request.
func (a *api) rotate(context.Context) error {
	a.n++
	return replaceFiles(fmt.Appendf(nil, "word-%d", a.n), filepath.Join(a.dir, "token"), a.token)
}

func (a *api) do(ctx context.Context, method, body string) (string, error) {
	return call(ctx, method, a.addr, a.token, body)
}

// caller gives up when an answer does not arrive.
var caller = &http.Client{Timeout: 5 * time.Second}

// call sends a request with the token in a file. Every status but 2xx is an error.
func call(ctx context.Context, method, addr, token, body string) (string, error) {
	word, err := os.ReadFile(token)
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+addr, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+string(word))
	r.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := caller.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("answered %d", resp.StatusCode)
	}
	return string(text), err
}

// stored returns the numbers of the records that the server keeps.
func (a *api) stored(context.Context) (all []int, err error) {
	content, err := os.ReadFile(filepath.Join(a.dir, "stored"))
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(content) {
		_, item, _ := bytes.Cut(line, []byte("\t"))
		var r struct{ N int }
		if bytes.HasSuffix(line, []byte("\n")) {
			if err := json.Unmarshal(item, &r); err != nil {
				return nil, err
			}
			all = append(all, r.N)
		}
	}
	return all, nil
}

// rotatedToken returns the path of a file with a token, and a function that replaces the token by another one.
func rotatedToken(t *testing.T, dir string) (path string, rotate func(context.Context) error) {
	t.Helper()
	path, n := filepath.Join(dir, "token"), 0
	rotate = func(context.Context) error {
		n++
		if err := os.WriteFile(path+".new", fmt.Appendf(nil, "word-%d", n), 0o600); err != nil {
			return err
		}
		return os.Rename(path+".new", path)
	}
	if err := rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return path, rotate
}
