package builtin_test

import (
	"errors"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type pair struct {
	A string `json:"a"`
	B int    `json:"b" default:"7"`
}

// Parse discards the previous settings, and calls check only if each setting is valid.
func TestParse(t *testing.T) {
	p, checked := pair{A: "before", B: 1}, 0
	check := func() error {
		if checked++; p.A == "bad" {
			return errors.New("a is bad")
		}
		return nil
	}
	if err := common.ParseSettings(map[string]string{}, &p, check); err != nil || p != (pair{B: 7}) || checked != 1 {
		t.Errorf("got %+v, %v after %d checks", p, err, checked)
	}
	if err := common.ParseSettings(map[string]string{"a": "bad"}, &p, check); err == nil || err.Error() != "a is bad" {
		t.Errorf("got %v", err)
	}
	if err := common.ParseSettings(map[string]string{"b": "x"}, &p, check); err == nil || checked != 2 {
		t.Errorf("got %v after %d checks", err, checked)
	}
}

// Only a text that does not depend on the record is checked.
func TestTemplate(t *testing.T) {
	never := func(string) error { return errors.New("not this") }
	for text, want := range map[string]string{
		"orders":                        "not this",
		"{{ .Metadata.region }}":        "",
		"{{ .Metadata.region":           "any",
		"orders-{{ .Metadata.region }}": "",
	} {
		_, err := common.ParseTemplate("topic", text, never)
		var wrong sdk.SettingError
		switch {
		case want == "" && err != nil, want != "" && (!errors.As(err, &wrong) || wrong.Setting != "topic"):
			t.Errorf("%s: %v", text, err)
		case want == "not this" && wrong.Message != want:
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := common.ParseTemplate("topic", "orders", nil); err != nil {
		t.Error(err)
	}
}
