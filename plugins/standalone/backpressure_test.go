package standalone_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire"
)

// Batches of an eagerSource.
const (
	eagerRecords = 100
	eagerBytes   = 10 << 10 // size of each record
)

// eagerSource reads as fast as the host permits, and appends a byte to a file for each batch.
type eagerSource struct {
	sdk.SourceBase
	file *os.File
	at   int
}

func (*eagerSource) Parameters() sdk.Parameters {
	return sdk.Parameters{"tally": {Type: sdk.TypeString}}
}

func (s *eagerSource) Configure(_ context.Context, settings map[string]string) (err error) {
	s.file, err = os.OpenFile(settings["tally"], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return err
}

func (*eagerSource) Open(context.Context, record.Position) error { return nil }

func (s *eagerSource) Read(ctx context.Context) ([]record.Record, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	records := make([]record.Record, eagerRecords)
	for i := range records {
		s.at++
		records[i] = record.Record{Position: record.Position(strconv.Itoa(s.at)), Operation: record.OperationCreate,
			After: record.Raw(make([]byte, eagerBytes))}
	}
	_, err := s.file.Write([]byte{'.'})
	return records, err
}

func serveEager() {
	wire.Serve(sdk.Connector{Name: "eager", Version: "v1.0.0", NewSource: func() sdk.Source { return &eagerSource{} }})
}

// Backpressure stops a source when the host reads nothing, and the source continues when the host does.
func TestASourceCannotRunFarAhead(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	tally := filepath.Join(t.TempDir(), "tally")
	c, _ := client(t, "eager")
	s := openSource(ctx, t, c, map[string]string{"tally": tally})
	read := func() int {
		info, err := os.Stat(tally)
		if err != nil {
			return 0
		}
		return int(info.Size())
	}
	if _, err := s.Read(ctx); err != nil {
		t.Fatal(err)
	}
	for range 200 { // calls beside which a source that is not held up reads on
		if err := s.LifecycleOnCreated(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	ahead := read()
	if size := ahead * eagerRecords * eagerBytes; size > 64<<20 {
		t.Errorf("the source ran %d bytes ahead", size)
	}
	for range ahead * 2 {
		if _, err := s.Read(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if n := read(); n <= ahead {
		t.Errorf("the source did not go on: %d batches, %d before", n, ahead)
	}
}
