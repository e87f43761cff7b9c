package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/plugins/schema"
)

const (
	schemaFormat     = 1                // entry format that this version writes, and the newest that it reads
	schemaTimeout    = 10 * time.Second // bounds one operation on the store of the cluster
	schemaRetryPause = 100 * time.Millisecond
	maxText          = 512 << 10
	firstShared      = 1 << 30 // smallest id of a shared schema: ids of a single agent count up from 1
)

// Key prefixes in the store.
const (
	versionPrefix = "c." // followed by the hash of the subject, a dot and the version
	textPrefix    = "t." // followed by the id
)

// SchemaRegistry is a schema registry whose schemas the members share. Set the fields, then use it from any goroutine.
type SchemaRegistry struct {
	Local   schema.IDRegistry // registry of this agent
	Cluster string            // cluster name
	Store   Store
	// Shared reports whether a subject belongs to the cluster. Other subjects are kept in Local.
	Shared func(subject string) bool
}

var (
	errSchemasUnreachable = errors.New("the store of the cluster, which has schemas that this agent has not seen, is " +
		"unreachable")
	errNewerSchemas = errors.New("a newer version of conduit wrote it")
)

// schemaEntry is the value of a key. The state of the entry is the schema text.
type schemaEntry struct {
	Format  int         `json:"format"`
	ID      int         `json:"id"`
	Type    schema.Type `json:"type"`
	Subject string      `json:"subject,omitempty"`
	Version int         `json:"version,omitempty"`
	Text    string      `json:"text,omitempty"` // only in this agent's store
}

func (e *schemaEntry) schema() schema.Schema {
	return schema.Schema{Subject: e.Subject, Version: e.Version, ID: e.ID, Type: e.Type, Text: e.Text}
}

// Create implements schema.Registry. It creates the schema in the store of the cluster if that does not have it.
func (r *SchemaRegistry) Create(
	ctx context.Context, subject string, typ schema.Type, text string,
) (schema.Schema, error) {
	if !r.Shared(subject) {
		return r.Local.Create(ctx, subject, typ, text)
	}
	if typ != schema.TypeAvro || text == "" {
		return schema.Schema{}, schema.ErrInvalidSchema
	}
	created := "created " + subject + " " + hash(text)
	if e, ok := r.recall(ctx, created); ok {
		return e.schema(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	e, err := r.create(ctx, subject, text)
	if err != nil {
		return schema.Schema{}, fmt.Errorf("cannot create a schema of subject %q in the cluster: %w", subject, err)
	}
	r.note(ctx, created, e)
	r.note(ctx, versionMemo(subject, e.Version), e)
	return e.schema(), nil
}

func (r *SchemaRegistry) create(ctx context.Context, subject, text string) (schemaEntry, error) {
	if len(text) > maxText {
		return schemaEntry{}, fmt.Errorf("it has %d bytes, the maximum is %d", len(text), maxText)
	}
	first, err := r.version(ctx, subject, 1)
	if err != nil {
		return schemaEntry{}, err
	}
	if first.ID == 0 { // records that this agent wrote outside the cluster refer to its versions
		for version := 1; ; version++ {
			s, err := r.Local.Get(ctx, subject, version)
			if err != nil {
				break
			}
			if _, err := r.add(ctx, subject, s.Text); err != nil {
				return schemaEntry{}, err
			}
		}
	}
	return r.add(ctx, subject, text)
}

// add returns the version of a subject with this text. It creates one if there is none.
func (r *SchemaRegistry) add(ctx context.Context, subject, text string) (schemaEntry, error) {
	id, err := r.identify(ctx, text)
	if err != nil {
		return schemaEntry{}, err
	}
	for version := 1; ; version++ {
		e, err := r.version(ctx, subject, version)
		if err == nil && e.ID == 0 {
			e, err = r.put(ctx, versionKey(subject, version),
				schemaEntry{Subject: subject, Version: version, ID: id, Text: text})
		}
		if err != nil || e.Text == text {
			return e, err
		}
	}
}

// identify returns the id of a text: the one derived from its hash, or the next one that no other text has.
func (r *SchemaRegistry) identify(ctx context.Context, text string) (int, error) {
	sum := sha256.Sum256([]byte(text))
	for id := firstShared | int(binary.BigEndian.Uint32(sum[:])>>2); ; id++ {
		e, err := r.read(ctx, textKey(id))
		if err == nil && e.ID == 0 {
			e, err = r.put(ctx, textKey(id), schemaEntry{ID: id, Text: text})
		}
		if err != nil || e.Text == text {
			return id, err
		}
	}
}

// put creates an entry, or returns the existing one, which may differ.
func (r *SchemaRegistry) put(ctx context.Context, key string, e schemaEntry) (schemaEntry, error) {
	e.Format, e.Type = schemaFormat, schema.TypeAvro
	text := e.Text
	e.Text = ""
	value, err := json.Marshal(&e)
	if err != nil {
		return e, fmt.Errorf("cannot encode it: %w", err)
	}
	for ctx.Err() == nil {
		o := r.Store.Write(ctx, protocol.Write{Entry: protocol.Entry{Key: key, Value: value, State: []byte(text)}})
		if o.Result == protocol.Applied {
			e.Text = text
			return e, nil
		}
		if present, err := r.read(ctx, key); err == nil && present.ID != 0 {
			return present, nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(schemaRetryPause):
		}
	}
	return e, errSchemasUnreachable
}

// read returns an entry of the store, without an id if there is none.
func (r *SchemaRegistry) read(ctx context.Context, key string) (e schemaEntry, err error) {
	present, err := r.Store.Read(ctx, key)
	if err != nil {
		return e, fmt.Errorf("%w: %w", errSchemasUnreachable, err)
	}
	if present.Value == nil {
		return e, nil
	}
	if err := json.Unmarshal(present.Value, &e); err != nil || e.Format > schemaFormat {
		return e, errNewerSchemas
	}
	e.Text = string(present.State)
	return e, nil
}

// version returns a version of a subject, without an id if there is none.
func (r *SchemaRegistry) version(ctx context.Context, subject string, version int) (schemaEntry, error) {
	memo := versionMemo(subject, version)
	if e, ok := r.recall(ctx, memo); ok {
		return e, nil
	}
	e, err := r.read(ctx, versionKey(subject, version))
	if err == nil && e.ID != 0 {
		r.note(ctx, memo, e)
	}
	return e, err
}

// Get implements schema.Registry. Versions that the cluster does not have come from this agent's registry.
func (r *SchemaRegistry) Get(ctx context.Context, subject string, version int) (schema.Schema, error) {
	if !r.Shared(subject) {
		return r.Local.Get(ctx, subject, version)
	}
	ctx, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	e, err := r.version(ctx, subject, version)
	switch {
	case err != nil:
		return schema.Schema{}, fmt.Errorf("cannot read version %d of schema subject %q in the cluster: %w", version,
			subject, err)
	case e.ID == 0:
		return r.Local.Get(ctx, subject, version)
	}
	return e.schema(), nil
}

// ByID implements schema.IDRegistry.
func (r *SchemaRegistry) ByID(ctx context.Context, id int) (schema.Schema, error) {
	if id < firstShared {
		return r.Local.ByID(ctx, id)
	}
	memo := "id " + strconv.Itoa(id)
	if e, ok := r.recall(ctx, memo); ok {
		return e.schema(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	e, err := r.read(ctx, textKey(id))
	switch {
	case err != nil:
		return schema.Schema{}, fmt.Errorf("cannot read schema %d in the cluster: %w", id, err)
	case e.ID == 0:
		return schema.Schema{}, schema.ErrSubjectNotFound
	}
	r.note(ctx, memo, e)
	return e.schema(), nil
}

// memo returns the subject of a cached entry in this agent's own registry. Each subject has a single version. The zero
// byte keeps connectors from naming the subject.
func (r *SchemaRegistry) memo(name string) string { return r.Cluster + "\x00" + name }

func versionMemo(subject string, version int) string {
	return "version " + subject + " " + strconv.Itoa(version)
}

func (r *SchemaRegistry) recall(ctx context.Context, name string) (e schemaEntry, ok bool) {
	s, err := r.Local.Get(ctx, r.memo(name), 1)
	return e, err == nil && json.Unmarshal([]byte(s.Text), &e) == nil
}

// note caches an entry. If that fails, the store is queried again next time.
func (r *SchemaRegistry) note(ctx context.Context, name string, e schemaEntry) {
	if text, err := json.Marshal(&e); err == nil {
		_, _ = r.Local.Create(ctx, r.memo(name), schema.TypeAvro, string(text))
	}
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:20])
}

func versionKey(subject string, version int) string {
	return versionPrefix + hash(subject) + "." + strconv.Itoa(version)
}

func textKey(id int) string { return textPrefix + strconv.Itoa(id) }
