package standalone

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire"
)

// answers are the specifications of executables, kept in a file so that an unchanged executable need not run again when
// the agent starts. Only Go programs are kept: they contain their specification, where others may have it from files
// beside them. The path belongs to the key, because a program may answer by its name.
type answers struct {
	path string // empty: nothing is kept

	mu    sync.Mutex
	read  bool               // guarded by mu
	files map[string]*answer // guarded by mu: by path; values are replaced, never modified
}

// answer is the specification of an executable, and the content that gave it.
type answer struct {
	Print   string
	Certain bool // an equal print means equal content
	Size    int64
	Sum     []byte // SHA-256 of the content
	Version int    // of the protocol
	Answer  wire.Frame
}

// maxAnswers limits the file, in bytes.
const maxAnswers = 64 << 20

// lookup returns the answer of the executable at path; nil: none.
func (a *answers) lookup(path string) *answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.load()
	return a.files[path]
}

// load reads the file once. A file that cannot be read is as good as none: the executables run again. The caller holds
// mu.
func (a *answers) load() {
	if a.read {
		return
	}
	a.read, a.files = true, map[string]*answer{}
	info, err := os.Stat(a.path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxAnswers {
		return
	}
	content, err := os.ReadFile(a.path)
	if err != nil || json.Unmarshal(content, &a.files) != nil {
		a.files = map[string]*answer{}
	}
}

// keep replaces the answer of the executable at path, nil for none, and the file.
func (a *answers) keep(path string, given *answer) error {
	if a.path == "" {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.load()
	if given == nil && a.files[path] == nil {
		return nil
	}
	for known := range a.files {
		if _, err := os.Lstat(known); errors.Is(err, fs.ErrNotExist) {
			delete(a.files, known)
		}
	}
	if a.files[path] = given; given == nil {
		delete(a.files, path)
	}
	content, err := json.Marshal(a.files)
	if err != nil {
		return err
	}
	return replaceFile(a.path, content)
}

// replaceFile replaces a file atomically.
func replaceFile(path string, content []byte) error {
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// newAnswer returns the answer of f with this content, nil if it is not to be kept.
func newAnswer(f *file, content digest, version int, given wire.Frame) *answer {
	if !content.goProgram {
		return nil
	}
	return &answer{Print: printOf(f), Certain: f.print.Certain(time.Now()), Size: f.print.Size,
		Sum: []byte(content.sum), Version: version, Answer: given}
}

func printOf(f *file) string {
	p := f.print
	return fmt.Sprintf("%s %d %o %d %d", p.ID, p.Size, p.Mode, p.Mtime, p.Ctime)
}

// same reports whether f has the content that gave the answer, as far as is known without reading it.
func (a *answer) same(f *file) bool { return a != nil && a.Certain && a.Print == printOf(f) }

// mayFit reports whether the content of f may be the one that gave the answer.
func (a *answer) mayFit(f *file) bool { return a != nil && a.Size == f.print.Size }

// specification returns the specification, or an error if this version of the agent cannot read it.
func (a *answer) specification() (sdk.Specification, error) {
	return wire.ParseSpecification(a.Answer, a.Version)
}
