package isolate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/conduit-agent/conduit/plugins/spoollog"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

// Logs are the logs of the isolated destinations of an agent, in a directory. The zero Logs has none.
type Logs struct{ Dir string }

// LogsOf returns the logs of the agent with this store.
func LogsOf(store string) Logs { return Logs{store + ".isolated"} }

// Path returns the directory of the log of a destination.
func (l Logs) Path(pipeline, connector string) string {
	return filepath.Join(l.Dir, texts.PathElement(pipeline), texts.PathElement(connector))
}

// create returns the directory of the log of a destination, and creates it. The names of new directories are durable
// when create returns: a record in the log may be acknowledged to its source.
func (l Logs) create(pipeline, connector string) (dir string, err error) {
	dir = l.Path(pipeline, connector)
	return dir, makeDir(dir)
}

// makeDir creates a directory and missing directories above it.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	f, err := os.Open(parent)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Has reports whether a destination has a log, possibly an empty one.
func (l Logs) Has(pipeline, connector string) bool {
	if l.Dir == "" {
		return false
	}
	_, err := os.Stat(l.Path(pipeline, connector))
	return err == nil
}

// Waiting returns the number of records in the log of a destination that the destination has not received, 0 if there
// is no log. If the log is in use, the number is as old as the last save of the cursor.
func (l Logs) Waiting(pipeline, connector string) (records uint64, err error) {
	if !l.Has(pipeline, connector) {
		return 0, nil
	}
	s, err := spoollog.Inspect(l.Path(pipeline, connector))
	if err != nil {
		return 0, err
	}
	for _, r := range s.Readers {
		if r.Name == readerName {
			return r.Behind, nil
		}
	}
	for _, f := range s.Segments {
		records += f.End - f.First
	}
	return records, nil
}

// Remove removes the log of a destination, which must not be in use.
func (l Logs) Remove(pipeline, connector string) error {
	if l.Dir == "" {
		return nil
	}
	return remove(l.Path(pipeline, connector))
}

// RemoveAll removes the logs of all destinations of a pipeline, which must not run.
func (l Logs) RemoveAll(pipeline string) error {
	if l.Dir == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(l.Dir, texts.PathElement(pipeline)))
}

// removedSuffix ends the name of a log that is being removed.
const removedSuffix = "+removed"

// remove removes the log in dir. A crash leaves the whole log or none: without the cursor, remaining records would
// count as not received.
func remove(dir string) error {
	removed := dir + removedSuffix
	if err := os.RemoveAll(removed); err != nil { // left by a crash
		return err
	}
	if err := os.Rename(dir, removed); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.RemoveAll(removed)
}

// Notes returns the consequences of a change of a pipeline for its isolated destinations and the records in their logs,
// by connector id. Either version may be nil for a pipeline that does not exist. cleanup is the time after which a
// removed connector is cleaned up.
func (l Logs) Notes(before, after *spec.Pipeline, cleanup string) map[string][]string {
	notes := map[string][]string{}
	note := func(id, format string, args ...any) { notes[id] = append(notes[id], fmt.Sprintf(format, args...)) }
	now := destinations(after)
	for id, c := range now {
		if c.Isolate != nil {
			note(id, "isolated: %s", limitsOf(c.Isolate))
		}
	}
	for id, c := range destinations(before) {
		n, err := l.Waiting(before.ID, id)
		to, stays := now[id]
		switch {
		case err != nil:
			note(id, "cannot read its log: %v", err)
		case n == 0:
		case !stays:
			note(id, "%d records wait in its log that it has not received; they are discarded with the connector %s after "+
				"it stops, unless it is declared again", n, cleanup)
		case to.Isolate == nil:
			note(id, "%d records wait in its log; it is no longer isolated and takes them first, while the pipeline waits",
				n)
		case to.Plugin != c.Plugin || !equalSettings(c, to):
			note(id, "%d records wait in its log; with the new plugin or settings it takes them, too", n)
		}
	}
	return notes
}

// destinations returns the destinations of a pipeline by id.
func destinations(p *spec.Pipeline) map[string]*spec.Connector {
	all := map[string]*spec.Connector{}
	if p == nil {
		return all
	}
	for i := range p.Connectors {
		if c := &p.Connectors[i]; c.Type == spec.TypeDestination {
			all[c.ID] = c
		}
	}
	return all
}

// equalSettings reports whether a and b are the same system, whatever their isolation.
func equalSettings(a, b *spec.Connector) bool {
	c := *b
	c.Isolate = a.Isolate
	return a.SameSystem(&c)
}

// connectorOf returns the id of a connector in its pipeline.
func connectorOf(pipeline, qualified string) string {
	return strings.TrimPrefix(qualified, pipeline+":")
}
