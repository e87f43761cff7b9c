package kafka

import (
	"regexp"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/template"
)

// text is a setting that may be a template.
type text struct {
	static   string
	metadata string // the text is this metadata entry
	template *template.Template
}

// onlyMetadata matches the template of most pipelines, which needs no execution.
var onlyMetadata = regexp.MustCompile("^{{\\s*index \\.Metadata [\"`]([^\"`\\\\]+)[\"`]\\s*}}$")

func parseText(s string) (text, error) {
	if !strings.Contains(s, "{{") {
		return text{static: s}, nil
	}
	if m := onlyMetadata.FindStringSubmatch(s); m != nil {
		return text{metadata: m[1]}, nil
	}
	t, err := template.Parse(s, template.Strict)
	return text{template: t}, err
}

func (t *text) execute(b *template.TimeLimit, r *record.Record) (string, error) {
	switch {
	case t.template != nil:
		out, err := t.template.Append(b, nil, r)
		return string(out), err
	case t.metadata != "":
		return r.Metadata.Get(t.metadata), nil
	}
	return t.static, nil
}

// perRecord reports whether the text may differ between records.
func (t *text) perRecord() bool { return t.template != nil || t.metadata != "" }
