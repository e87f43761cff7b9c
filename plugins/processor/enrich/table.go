package enrich

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/charset"
	"github.com/conduit-agent/conduit/plugins/processor/jsonvalue"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// maxTable bounds the size of a table's file.
const maxTable = 64 << 20

// table are rows by the text of their key.
type table map[string]map[string]any

// readTable returns the rows of the table by the text of their key. If several rows have the same key, the last one
// wins.
func readTable(ctx context.Context, s fileSettings) (table, error) {
	b, err := sdk.ReadSettingFile(ctx, "path", s.Path, maxTable)
	if err != nil {
		return nil, fmt.Errorf("cannot read the table: %w", err)
	}
	var rows table
	if s.Format == "json" || s.Format == "auto" && strings.EqualFold(filepath.Ext(s.Path), ".json") {
		rows, err = readJSON(b, s)
	} else {
		rows, err = readCSV(b, s)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the table %s: %w", s.Path, err)
	}
	return rows, nil
}

func readCSV(b []byte, s fileSettings) (table, error) {
	b, err := charset.UTF8(b, "")
	if err != nil {
		return nil, err
	}
	in := csv.NewReader(bytes.NewReader(b))
	names, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("it has no line of names")
	}
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		if first := slices.Index(names, name); first < i && (s.wanted(name, "") || name == s.Column) {
			return nil, fmt.Errorf("columns %d and %d have the same name %q: rename one of them", first+1, i+1, name)
		}
	}
	key := 0
	if s.Column != "" {
		if key = slices.Index(names, s.Column); key < 0 {
			return nil, fmt.Errorf("it has no column %q but %s", s.Column, strings.Join(names, ", "))
		}
	}
	rows := table{}
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		row := map[string]any{}
		for i, name := range names {
			if s.wanted(name, names[key]) {
				row[name] = fields[i]
			}
		}
		rows[fields[key]] = row
	}
}

func readJSON(b []byte, s fileSettings) (table, error) {
	if s.Column == "" {
		return nil, errors.New("the setting column is needed for JSON")
	}
	v, err := jsonvalue.Parse(b)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, errors.New("it is no list of objects")
	}
	rows := table{}
	for i, item := range list {
		object, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("item %d is no object", i)
		}
		key, ok := object[s.Column]
		if !ok {
			return nil, fmt.Errorf("item %d has no %q", i, s.Column)
		}
		row := map[string]any{}
		for name, v := range object {
			if s.wanted(name, s.Column) {
				row[name] = v
			}
		}
		text, err := record.Text(key)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		rows[text] = row
	}
	return rows, nil
}
