package generator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// settings are the decoded settings.
type settings struct {
	// Maximum number of records per second over all collections. 0 or empty: no limit.
	Rate *float64 `json:"rate"`
	// Number of records to generate, counted across restarts. 0: no end.
	RecordCount int64 `json:"recordCount" default:"0" validate:"gt=-1"`
	// Time to generate one record. Deprecated: use rate.
	ReadTime *time.Duration `json:"readTime"`
	Burst    struct {
		// Pause between bursts. 0: no bursts.
		SleepTime time.Duration `json:"sleepTime"`
		// Duration of a burst.
		GenerateTime time.Duration `json:"generateTime" default:"1s"`
	} `json:"burst"`
	collectionSettings
	Collections map[string]collectionSettings `json:"collections"`
}

// collectionSettings are the settings of a collection.
type collectionSettings struct {
	// Comma-separated operations (create, update, delete, snapshot). Each record gets a random one.
	Operations []string `json:"operations" default:"create" validate:"required"`
	Format     struct {
		// Format of the payload: structured (an object), raw (the JSON text of an object) or file (the content of a
		// file).
		Type string `json:"type" validate:"inclusion=raw|structured|file"`
		// For raw and structured: the type of the field of this name: int, string, time, bool or duration.
		Options map[string]string `json:"options"`
		// For file: the path of the file.
		Path string `json:"options.path" literal:"true"`
	} `json:"format"`
}

// interval returns the nanoseconds between two records.
func (s *settings) interval() float64 {
	if s.ReadTime != nil {
		return float64(*s.ReadTime)
	}
	if s.Rate != nil && *s.Rate > 0 {
		return float64(time.Second) / *s.Rate
	}
	return 0
}

// check returns the collections sorted by name, with the unnamed one first, or all errors in the settings.
func (s *settings) check() ([]collection, error) {
	errs := s.checkTimes()
	var collections []collection
	add := func(name, prefix string, k collectionSettings) {
		c, err := k.collection(name, prefix)
		collections = append(collections, c)
		errs = append(errs, err)
	}
	if s.Format.Type != "" {
		add("", "", s.collectionSettings)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Collections)) {
		add(name, "collections."+name+".", s.Collections[name])
	}
	if len(collections) == 0 {
		errs = append(errs,
			errors.New(`no data to generate: set "format.type" or "collections.*.format.type"`))
	}
	return collections, errors.Join(errs...)
}

// checkPaths returns an error for each file to generate from that may not be used.
func (s *settings) checkPaths(ctx context.Context) error {
	var errs []error
	check := func(prefix string, k collectionSettings) {
		if k.Format.Type == "file" {
			errs = append(errs, sdk.CheckPath(ctx, prefix+"format.options.path", k.Format.Path))
		}
	}
	check("", s.collectionSettings)
	for _, name := range slices.Sorted(maps.Keys(s.Collections)) {
		check("collections."+name+".", s.Collections[name])
	}
	return errors.Join(errs...)
}

// checkTypes reports fields without a type. Decode drops them.
func checkTypes(values map[string]string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !strings.Contains(name, "format.options.") || strings.TrimSpace(values[name]) != "" ||
			strings.HasSuffix(name, ".path") {
			continue
		}
		errs = append(errs, fmt.Errorf("%q: the type of the field is empty", name))
	}
	return errors.Join(errs...)
}

func (s *settings) checkTimes() (errs []error) {
	if s.Rate != nil && s.ReadTime != nil {
		errs = append(errs,
			errors.New(`"rate" and "readTime" cannot both be set; "readTime" is deprecated, prefer "rate"`))
	}
	if s.Rate != nil && !(*s.Rate >= 0 && *s.Rate <= math.MaxFloat64) {
		errs = append(errs, fmt.Errorf(`"rate": must be a number greater than or equal to 0, not %v`, *s.Rate))
	}
	if s.ReadTime != nil && *s.ReadTime < 0 {
		errs = append(errs, errors.New(`"readTime": must be greater than or equal to 0`))
	}
	if s.Burst.SleepTime < 0 {
		errs = append(errs, errors.New(`"burst.sleepTime": must be greater than or equal to 0`))
	}
	if s.Burst.GenerateTime <= 0 {
		errs = append(errs, errors.New(`"burst.generateTime": must be greater than 0`))
	}
	return errs
}

// collection validates a collection. prefix is the common prefix of the collection's settings.
func (s collectionSettings) collection(name, prefix string) (collection, error) {
	c := collection{name: name}
	var errs []error
	for _, text := range s.Operations {
		op, err := record.ParseOperation(strings.TrimSpace(text))
		if err != nil || op > record.OperationSnapshot || op < record.OperationCreate {
			errs = append(errs,
				fmt.Errorf(`"%soperations": unknown operation %q: want create, update, delete or snapshot`, prefix,
					text))
		}
		c.operations = append(c.operations, op)
	}
	var err error
	c.payload, err = s.payload(prefix)
	return c, errors.Join(append(errs, err)...)
}

func (s collectionSettings) payload(prefix string) (payload, error) {
	switch s.Format.Type {
	case "file":
		if s.Format.Path == "" {
			return nil, fmt.Errorf(`"%sformat.options.path": the path of a file is required when the format is file`,
				prefix)
		}
		return &filePayload{setting: prefix + "format.options.path", path: s.Format.Path}, nil
	case "raw":
		fields, err := s.fields(prefix)
		return rawPayload(fields), err
	case "structured":
		fields, err := s.fields(prefix)
		return structuredPayload(fields), err
	}
	return nil, fmt.Errorf(`"%sformat.type": unknown format %q: want raw, structured or file`, prefix, s.Format.Type)
}

// fields returns the fields sorted by name.
func (s collectionSettings) fields(prefix string) ([]field, error) {
	var fields []field
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.Format.Options)) {
		typ := s.Format.Options[name]
		k, known := kinds[strings.ToLower(typ)]
		switch {
		case name == "":
			errs = append(errs, fmt.Errorf(`"%sformat.options.": the name of the field is empty`, prefix))
		case !known:
			errs = append(errs,
				fmt.Errorf(`"%sformat.options.%s": unknown type %q: want int, string, time, bool or duration`, prefix,
					name, typ))
		}
		quoted, _ := json.Marshal(name) // a string always has a JSON form
		fields = append(fields, field{name: name, quoted: string(quoted), kind: k})
	}
	return fields, errors.Join(errs...)
}

// maxFile is the maximum size of a file to generate from, in bytes. It is the same as for files in references.
const maxFile = 1 << 20

func (p *filePayload) load(ctx context.Context) error {
	contents.mu.Lock() // reads one large file at a time
	defer contents.mu.Unlock()
	content, err := sdk.ReadSettingFile(ctx, p.setting, p.path, maxFile)
	if err != nil {
		return fmt.Errorf("cannot read the content to generate: %w", err)
	}
	p.content = shared(content)
	return nil
}
