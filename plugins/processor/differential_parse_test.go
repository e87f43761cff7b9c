package processor_test

import (
	"encoding/csv"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
)

// parsers are the cases for the processors that parse a text. Each has random texts of its own.
func parsers() []differential {
	return []differential{
		{name: "csv", plugin: "parse.csv", settings: parserOf("columns", "a,b,c", "types", "a:int,c:float",
			"missing", "null", "extra", "drop"), reference: onText(plainCSV),
			random: randomTextOf(`a`, `,`, `1`, `"`, `""`, "\n", "2.5", "é\xff", " ")},
		{name: "tags of csv", plugin: "parse.csv", settings: parserOf("columns", "a", "on-error", "tag"),
			random: randomTextOf(`a`, `,`), reference: one(func(r *record.Record) error {
				m, _ := r.After.Structured()
				text, _ := m["text"].(string)
				if strings.Contains(text, ",") {
					r.Metadata.Set("parse.error", ".Payload.After.text: it has more than 1 columns")
					return nil
				}
				m["text"] = map[string]any{"a": text}
				return nil
			})},
	}
}

func parserOf(settings ...string) map[string]string {
	all := map[string]string{"field": ".Payload.After.text"}
	for i := 0; i < len(settings); i += 2 {
		all[settings[i]] = settings[i+1]
	}
	return all
}

// randomTextOf makes records with a text of some of these pieces.
func randomTextOf(pieces ...string) func(rnd *rand.Rand) record.Record {
	return func(rnd *rand.Rand) record.Record {
		r := randomRecord(rnd)
		var text strings.Builder
		for range rnd.IntN(8) {
			text.WriteString(pick(rnd, pieces...))
		}
		r.After = record.Structured(map[string]any{"text": text.String()})
		return r
	}
}

// onText replaces the text by the result.
func onText(do func(text string) (any, error)) reference {
	return one(func(r *record.Record) error {
		m, _ := r.After.Structured()
		text, _ := m["text"].(string)
		made, err := do(text)
		if err == nil {
			m["text"] = made
		}
		return err
	})
}

func plainCSV(text string) (any, error) {
	reader := csv.NewReader(strings.NewReader(text))
	reader.FieldsPerRecord = -1
	all, err := reader.ReadAll()
	switch trimmed := strings.TrimSuffix(text, "\n"); {
	case trimmed == "": // encoding/csv skips empty lines
		all, err = [][]string{{""}}, nil
	case strings.HasPrefix(text, "\n") || strings.HasSuffix(trimmed, "\n"):
		err = errReference
	}
	if err != nil || len(all) != 1 {
		return nil, errReference
	}
	made := map[string]any{"a": nil, "b": nil, "c": nil}
	for i, name := range []string{"a", "b", "c"} {
		if i == len(all[0]) {
			break
		}
		switch column := all[0][i]; {
		case name == "b":
			made[name] = column
		case column == "":
		case name == "a":
			if made[name], err = strconv.ParseInt(column, 10, 64); err != nil {
				return nil, err
			}
		default:
			if made[name], err = strconv.ParseFloat(column, 64); err != nil {
				return nil, err
			}
		}
	}
	return made, nil
}
