//go:build !minimal

package ai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/conduit-agent/conduit/plugins/processor/jsonvalue"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type ollamaConfig struct {
	URL    string `json:"url" desc:"URL of the Ollama server, for example http://localhost:11434." validate:"required"`
	Field  string `json:"field" default:".Payload.After" desc:"Reference to the field, an object." validate:"regex=^\\.?[pP]ayload"`
	Model  string `json:"model" default:"llama3.2" desc:"Name of the model."`
	Prompt string `json:"prompt" desc:"What to do with the object."`
	timeLimit
	backoff
}

// ollama is the processor ollama.
type ollama struct {
	sdk.ProcessorBase
	config  ollamaConfig
	field   field
	service service
}

// Parameters implements sdk.Processor.
func (*ollama) Parameters() sdk.Parameters { return sdk.ParametersOf(ollamaConfig{}) }

// maxPrompt bounds the length of a prompt.
const maxPrompt = 4096

// suspicious lists texts that no well-meant prompt contains.
var suspicious = []string{"rm -rf", "drop table", "<script>", "javascript:", "data:text/html"}

// Configure implements sdk.Processor.
func (p *ollama) Configure(_ context.Context, settings map[string]string) (err error) {
	if err := sdk.Decode(settings, &p.config); err != nil {
		return err
	}
	if len(p.config.Prompt) > maxPrompt {
		return sdk.SettingError{Setting: "prompt", Message: fmt.Sprintf("it is longer than %d bytes", maxPrompt)}
	}
	for _, text := range suspicious {
		if strings.Contains(strings.ToLower(p.config.Prompt), text) {
			return sdk.SettingError{Setting: "prompt", Message: fmt.Sprintf("it holds %q, which is refused", text)}
		}
	}
	if p.field, err = parseField("field", p.config.Field, false); err != nil {
		return err
	}
	p.service, err = newService("url", p.config.URL, "", "", p.config.Timeout, p.config.retry())
	return err
}

// SchemaParts implements sdk.SchemaUser.
func (p *ollama) SchemaParts() schema.Parts { return partsOf(p.field) }

// Process implements sdk.Processor.
func (p *ollama) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	return each(ctx, b, p.processOne)
}

func (p *ollama) processOne(ctx context.Context, r *record.Record) error {
	object, err := p.object(r)
	if err != nil {
		return err
	}
	prompt := fmt.Sprintf("Instructions: {%s}\n Record: {%s}\n Suffix {Answer with the record that the instructions make of this one, as one JSON object, and with nothing else.}",
		p.config.Prompt, object)
	request := map[string]any{"model": p.config.Model, "prompt": prompt, "format": "json", "stream": false}
	var answer struct {
		Done     bool   `json:"done"`
		Response string `json:"response"`
	}
	if err := p.service.post(ctx, "/api/generate", request, &answer); err != nil {
		return fmt.Errorf("cannot ask the model: %w", err)
	}
	if !answer.Done {
		return errors.New("cannot use the answer of the model: it is not complete")
	}
	value, _ := jsonvalue.Parse([]byte(answer.Response))
	made, ok := value.(map[string]any)
	if !ok {
		return errors.New("cannot use the answer of the model: it is no JSON object")
	}
	return p.field.ref.Set(r, made)
}

// object returns the field as the JSON of an object.
func (p *ollama) object(r *record.Record) (string, error) {
	text, err := p.field.text(r)
	if err != nil {
		return "", fmt.Errorf("cannot read the field: %w", err)
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		return "", fmt.Errorf("cannot use %s: it is no object", p.field.ref)
	}
	return text, nil
}
