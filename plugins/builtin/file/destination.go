package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
	"github.com/conduit-agent/conduit/plugins/texttype"
)

const (
	writeBytes = 1 << 20     // minimum size of a write while a batch is large
	keepBytes  = 4 << 20     // size of the largest buffer kept for the next Write
	closeAfter = time.Minute // idle time after which a file of a template is closed
)

type destinationSettings struct {
	rotateSettings

	// Path of the file to append to, or a template for it, such as out/{{ .Metadata.GetCollection }}.jsonl or out/{{
	// strftime "%Y-%m-%d/%H" }}.jsonl. The file is created if it does not exist, and with a template the directories
	// behind the first {{, too. Other directories must exist.
	Path string `json:"path" template:"true" validate:"required"`
	// Maximum number of open files when path is a template. The least recently written file is closed to open another.
	OpenFiles int `json:"openFiles" default:"100" validate:"gt=0"`
	// Maximum number of files that are created in an hour when path is a template. A record that needs another file is
	// refused.
	PerHour int `json:"filesPerHour" default:"10000" validate:"gt=0"`
	// Text for a value in a template of path that is empty.
	Empty string `json:"emptyValue" literal:"true" default:"unknown" validate:"required"`
	// Time zone of strftime in a template of path, such as Local or Europe/Vienna.
	Zone string `json:"timezone" default:"UTC"`
	// Compression of the file. Every write is a complete member of gzip, or a frame of Zstandard. path must end in .gz
	// or .zst.
	Packing string `json:"compression" default:"none" validate:"inclusion=none|gzip|zstd"`
	// Whether records are synced to disk, safe from a power cut, before they are acknowledged. It has no effect on
	// pipes and terminals.
	Fsync bool `json:"fsync" default:"true"`
}

// Destination appends each record to a file, in the record format of the connector and followed by a newline. The path
// may be a template.
type Destination struct {
	sdk.DestinationBase

	zstd      Zstd
	settings  destinationSettings
	path      *template.Template
	below     string // directory that contains all files of a template
	timeLimit template.TimeLimit
	shared    *outputs

	open     map[string]*output // by path
	only     *output            // the only file, if the path is no template
	last     *output            // the file of the last record, if it is open
	pending  []*output          // outputs with buffered records
	buffered int                // total bytes of their buffers
	looked   time.Time          // time of the last check for idle files
	scratch  []byte
}

// buffers are shared by all destinations: of many destinations, few write at the same time.
var buffers = sync.Pool{New: func() any { return &[]byte{} }}

// Parameters returns the descriptions of the settings.
func (d *Destination) Parameters() sdk.Parameters {
	return sdk.Described(destinationSettings{}, descriptions)
}

// Configure validates and stores the settings.
func (d *Destination) Configure(ctx context.Context, values map[string]string) (err error) {
	d.settings = destinationSettings{}
	if err := sdk.Decode(values, &d.settings); err != nil {
		return err
	}
	if err := d.settings.check(); err != nil {
		return err
	}
	if err := checkZstd(d.zstd, "rotate.compression", d.settings.Compression); err != nil {
		return err
	}
	if err := d.settings.checkPacking(d.zstd); err != nil {
		return err
	}
	zone, err := texttype.Zone("timezone", d.settings.Zone)
	if err != nil {
		return err
	}
	if err := checkElement(d.settings.Empty); err != nil {
		return sdk.SettingError{Setting: "emptyValue", Message: "is no name of a file: " + err.Error()}
	}
	if d.path, err = template.ParsePath(d.settings.Path, d.settings.Empty, zone); err != nil {
		return sdk.SettingError{Setting: "path", Message: err.Error()}
	}
	d.below = Below(d.settings.Path)
	if d.below != "" {
		return sdk.CheckPath(ctx, "path", d.below)
	}
	return sdk.CheckPath(ctx, "path", d.settings.Path)
}

// checkPacking checks the compression of the file.
func (s *destinationSettings) checkPacking(z Zstd) error {
	kind := memberKinds[s.Packing]
	switch {
	case kind == nil:
		return nil
	case s.Compression != "none":
		return sdk.SettingError{Setting: "rotate.compression", Message: "cannot be set with compression: the rotated " +
			"files are compressed already"}
	case !strings.HasSuffix(s.Path, kind.extension):
		return sdk.SettingError{Setting: "path", Message: fmt.Sprintf("must end in %s with compression %s, so that "+
			"other programs can tell", kind.extension, s.Packing)}
	}
	return checkZstd(z, "compression", s.Packing)
}

// Below returns the directory that contains every file that the path setting of a destination can name; empty for a
// path that is no template.
func Below(path string) string {
	before, _, isTemplate := strings.Cut(path, "{{")
	switch end := strings.LastIndexByte(before, '/'); {
	case !isTemplate:
		return ""
	case end < 0:
		return "."
	default:
		return before[:end+1]
	}
}

// Open opens the file and creates it if necessary. With a template it checks the directory of the files instead.
func (d *Destination) Open(ctx context.Context) error {
	checkIn := func(dir *os.File, name string) error { return sdk.CheckCreate(ctx, "path", dir, name) }
	d.shared = &outputs{
		settings: d.settings,
		check:    func(f *os.File) error { return sdk.CheckOpen(ctx, "path", f) },
		checkIn:  checkIn,
		archive:  newArchive(d.settings.rotateSettings, d.zstd, sdk.Logger(ctx), checkIn),
		defers:   sdk.EnvFrom(ctx).Defer,
		header:   sdk.RecordHeader(ctx),
	}
	var err error
	if d.shared.packer, err = newPacker(d.settings.Packing, d.zstd); err != nil {
		return err
	}
	d.open, d.only, d.pending = map[string]*output{}, nil, nil
	if d.below != "" {
		dir, err := os.OpenRoot(d.below)
		if err != nil {
			return explain(d.below+"x", err)
		}
		return dir.Close()
	}
	d.only = newOutput(d.shared, d.settings.Path, "")
	d.open[d.only.path] = d.only
	if err := d.only.open(); err != nil {
		return err
	}
	return d.only.tidy()
}

// Write appends the records. It refuses a record only if it cannot be encoded or has no valid path. When Write fails,
// it removes the bytes of uncounted records from the files, so that a retry writes no duplicates.
func (d *Destination) Write(ctx context.Context, records []record.Record) (int, error) {
	d.timeLimit.Begin(ctx)
	defer d.release()
	if err := d.closeIdle(); err != nil {
		return 0, sdk.Unavailable(err)
	}
	format := sdk.RecordFormat(ctx)
	written := 0
	for i := range records {
		if d.buffered >= d.settings.most() {
			if err := d.flush(); err != nil {
				return written, sdk.Unavailable(err)
			}
			written = i
		}
		o, err := d.outputOf(&records[i])
		if errors.Is(err, errTooMany) {
			if err := d.flush(); err != nil {
				return written, sdk.Unavailable(err)
			}
			written = i
			if err = d.closeOldest(); err == nil {
				o, err = d.outputOf(&records[i])
			}
		}
		if err == nil {
			err = d.append(o, format, &records[i])
		}
		if err != nil {
			return d.fail(written, i, err)
		}
	}
	if err := d.flush(); err != nil {
		return written, sdk.Unavailable(err)
	}
	return len(records), nil
}

// NoLines implements sdk.LineDestination.
func (d *Destination) NoLines() string {
	if d.below != "" {
		return "path is a template"
	}
	return ""
}

// WriteLines implements sdk.LineDestination. It writes as much at once as Write does.
func (d *Destination) WriteLines(_ context.Context, lines record.Lines) (n int, err error) {
	most, text := d.settings.most(), lines.Text()
	for len(text) > 0 {
		end := len(text)
		if end > most {
			end = most + bytes.IndexByte(text[most-1:], '\n')
		}
		err := d.only.follow()
		if err == nil {
			err = d.only.write(text[:end])
		}
		if err != nil {
			return n, sdk.Unavailable(err)
		}
		if text = text[end:]; len(text) == 0 {
			break
		}
		n = lines.Len() - bytes.Count(text, newline)
	}
	return lines.Len(), nil
}

// fail writes the records before record i, which cannot be written because of err.
func (d *Destination) fail(written, i int, err error) (int, error) {
	if failed := d.flush(); failed != nil {
		return written, sdk.Unavailable(failed)
	}
	return i, err
}

// append adds a line to the buffer of a file.
func (d *Destination) append(o *output, format sdk.Format, r *record.Record) error {
	if o.buf == nil {
		o.start()
	}
	buf, err := format(o.buf, r)
	if err != nil {
		if len(o.buf) == 0 {
			o.release()
		}
		return fmt.Errorf("cannot encode the record: %w", err)
	}
	d.buffered += len(buf) + 1 - len(o.buf)
	if len(o.buf) == 0 {
		d.pending = append(d.pending, o)
	}
	o.buf = append(buf, '\n')
	return nil
}

// flush writes the buffers of all files. If one fails, flush undoes the others.
func (d *Destination) flush() error {
	for i, o := range d.pending {
		if err := o.flush(); err != nil {
			for _, o := range d.pending[:i] {
				o.undo()
			}
			d.release()
			return err
		}
	}
	d.release()
	return nil
}

// release releases the buffers.
func (d *Destination) release() {
	for _, o := range d.pending {
		o.release()
	}
	if d.only != nil {
		d.only.release()
	}
	d.pending, d.buffered = d.pending[:0], 0
}

// errTooMany reports that the limit of open files is reached.
var errTooMany = errors.New("too many files are open")

// outputOf returns the open file for a record.
func (d *Destination) outputOf(r *record.Record) (*output, error) {
	if o := d.only; o != nil {
		if o.buf != nil {
			return o, nil
		}
		return o, sdk.Unavailable(o.follow())
	}
	path, err := d.path.Append(&d.timeLimit, d.scratch[:0], r)
	if err != nil {
		return nil, fmt.Errorf("cannot make the path: %w", err)
	}
	d.scratch = path
	if o := d.last; o != nil && o.path == string(path) && o.buf != nil {
		return o, nil
	}
	o := d.open[string(path)]
	if o == nil {
		if err := checkName(string(path), d.below); err != nil {
			return nil, fmt.Errorf("cannot write to %q: %w", path, err)
		}
		if len(d.open) >= d.settings.OpenFiles {
			return nil, errTooMany
		}
		o = newOutput(d.shared, string(path), d.below)
	}
	if d.last = o; o.buf != nil {
		return o, nil
	}
	isNew := o.file == nil
	if err := o.follow(); err != nil {
		if isFaultOfName(err) {
			return nil, err
		}
		return nil, sdk.Unavailable(err)
	}
	d.open[o.path] = o
	if isNew {
		return o, sdk.Unavailable(o.tidy())
	}
	return o, nil
}

const (
	longest = 255 // bytes of the name of a file or directory
	deepest = 32  // maximum number of directories that a record may name
)

// checkName returns an error if a record may not name this file. Every file must be below the directory, whatever the
// content of the record.
func checkName(path, below string) error {
	name := path
	if below != "." {
		var ok bool
		if name, ok = strings.CutPrefix(path, below); !ok {
			return fmt.Errorf("it is not in %s", below)
		}
	}
	if n := strings.Count(name, "/"); n > deepest {
		return fmt.Errorf("there are %d directories in it, more than %d", n, deepest)
	}
	for element := range strings.SplitSeq(name, "/") {
		if err := checkElement(element); err != nil {
			return err
		}
	}
	return nil
}

// checkElement returns an error if a file or directory cannot have this name.
func checkElement(element string) error {
	switch {
	case element == "" || element == "." || element == ".." || strings.Contains(element, "/"):
		return fmt.Errorf("%q is no name of a file or directory", element)
	case len(element) > longest:
		return fmt.Errorf("a name in it has %d bytes, more than %d", len(element), longest)
	case strings.ContainsFunc(element, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return errors.New("a name in it has a control character")
	}
	return nil
}

// isFaultOfName reports whether opening a file failed due to its name, which depends on the record.
func isFaultOfName(err error) bool {
	var setting sdk.SettingError
	if errors.As(err, &setting) || errors.Is(err, errHourly) {
		return true
	}
	for _, fault := range []error{
		syscall.ENAMETOOLONG, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP, syscall.EINVAL, syscall.EILSEQ,
	} {
		if errors.Is(err, fault) {
			return true
		}
	}
	// A link leads out of the directory: package os has no error value for this case.
	var wrong *os.PathError
	var number syscall.Errno
	return errors.As(err, &wrong) && !errors.As(err, &number)
}

// closeIdle closes the files of a template that were not written to for closeAfter.
func (d *Destination) closeIdle() error {
	if d.only != nil || time.Since(d.looked) < compareInterval {
		return nil
	}
	d.looked = time.Now()
	var errs []error
	for path, o := range d.open {
		if time.Since(o.used) >= closeAfter {
			delete(d.open, path)
			errs = append(errs, o.close())
		}
	}
	return errors.Join(errs...)
}

// closeOldest closes the least recently used file.
func (d *Destination) closeOldest() error {
	oldest := slices.MinFunc(slices.Collect(maps.Values(d.open)), func(a, b *output) int {
		return a.used.Compare(b.used)
	})
	delete(d.open, oldest.path)
	return sdk.Unavailable(oldest.close())
}

// Teardown closes the files.
func (d *Destination) Teardown(context.Context) error {
	if d.shared != nil {
		d.shared.archive.close()
	}
	var errs []error
	for path, o := range d.open {
		delete(d.open, path)
		errs = append(errs, o.close())
	}
	return errors.Join(errs...)
}
