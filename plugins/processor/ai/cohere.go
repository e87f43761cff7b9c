//go:build !minimal

package ai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/conduit-agent/conduit/plugins/processor/httpcall"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

// cohereConfig are the settings of all cohere.* processors.
type cohereConfig struct {
	APIKey  string `json:"apiKey" desc:"Key of the API." validate:"required"`
	BaseURL string `json:"baseURL" default:"https://api.cohere.com" desc:"Where the API is."`
	timeLimit
	backoff
}

// cohere is the common part of all cohere.* processors.
type cohere struct {
	sdk.ProcessorBase
	from, to field
	service  service
}

// configure reads the references in the settings with these names.
func (p *cohere) configure(c cohereConfig, fromSetting, from, toSetting, to string) (err error) {
	if p.from, err = parseField(fromSetting, from, false); err != nil {
		return err
	}
	if p.to, err = parseField(toSetting, to, true); err != nil {
		return err
	}
	p.service, err = newService("baseURL", c.BaseURL, "apiKey", c.APIKey, c.Timeout, c.retry())
	return err
}

// SchemaParts implements sdk.SchemaUser.
func (p *cohere) SchemaParts() schema.Parts { return partsOf(p.from, p.to) }

type commandConfig struct {
	cohereConfig
	Model  string `json:"model" default:"command" desc:"Name of the model."`
	Prompt string `json:"prompt" desc:"What the model is asked, with %s in the place of the field's text." validate:"required"`
	From   string `json:"request.body" default:".Payload.After" desc:"Reference to the field to send."`
	To     string `json:"response.body" default:".Payload.After" desc:"Reference to the field for the answer."`
}

// command is the processor cohere.command.
type command struct {
	cohere
	config commandConfig
}

// Parameters implements sdk.Processor.
func (*command) Parameters() sdk.Parameters { return sdk.ParametersOf(commandConfig{}) }

// Configure implements sdk.Processor.
func (p *command) Configure(_ context.Context, settings map[string]string) error {
	if err := sdk.Decode(settings, &p.config); err != nil {
		return err
	}
	c := p.config
	return p.configure(c.cohereConfig, "request.body", c.From, "response.body", c.To)
}

// Process implements sdk.Processor.
func (p *command) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	return each(ctx, b, func(ctx context.Context, r *record.Record) error {
		return transform(p.from, p.to, r, func(text string) (string, error) { return p.ask(ctx, text) })
	})
}

func (p *command) ask(ctx context.Context, text string) (string, error) {
	request := map[string]any{"model": p.config.Model, "stream": false,
		"messages": []chatMessage{{"user", fillPrompt(p.config.Prompt, text)}}}
	var answer struct {
		Message struct {
			Content []struct {
				Type string `json:"type"`
				Text string `json:"text"`
			} `json:"content"`
		} `json:"message"`
	}
	if err := p.service.post(ctx, "/v2/chat", request, &answer); err != nil {
		return "", fmt.Errorf("cannot ask the model: %w", err)
	}
	content := answer.Message.Content
	if len(content) != 1 || content[0].Type != "text" {
		return "", errors.New("cannot use the answer of the model: want one text")
	}
	return content[0].Text, nil
}

// fillPrompt replaces %s in the prompt by the text, or appends the text to a prompt without %s. %% stands for %.
func fillPrompt(prompt, text string) string {
	var out strings.Builder
	filled := false
	for rest := prompt; rest != ""; {
		before, after, found := strings.Cut(rest, "%")
		out.WriteString(before)
		switch {
		case !found:
			after = ""
		case strings.HasPrefix(after, "s"):
			out.WriteString(text)
			filled, after = true, after[1:]
		case strings.HasPrefix(after, "%"):
			out.WriteByte('%')
			after = after[1:]
		default:
			out.WriteByte('%')
		}
		rest = after
	}
	if !filled {
		out.WriteString("\n" + text)
	}
	return out.String()
}

type embedConfig struct {
	cohereConfig
	Model     string `json:"model" default:"embed-english-v2.0" desc:"Name of the model."`
	InputType string `json:"inputType" desc:"What the embedding is for, such as search_document. Models from v3 on need it."`
	From      string `json:"inputField" default:".Payload.After" desc:"Reference to the field to send."`
	To        string `json:"outputField" default:".Payload.After" desc:"Reference to the field for the embedding."`
	MaxTexts  int    `json:"maxTextsPerRequest" default:"96" desc:"How many records go into one request; at most 96." validate:"gt=0,lt=97"`
}

// embed is the processor cohere.embed.
type embed struct {
	cohere
	config   embedConfig
	compress func([]byte) []byte
}

// Parameters implements sdk.Processor.
func (*embed) Parameters() sdk.Parameters { return sdk.ParametersOf(embedConfig{}) }

// Configure implements sdk.Processor.
func (p *embed) Configure(_ context.Context, settings map[string]string) (err error) {
	if err := sdk.Decode(settings, &p.config); err != nil {
		return err
	}
	c := p.config
	if c.InputType == "" && !strings.Contains(c.Model, "v2") {
		return sdk.SettingError{Setting: "inputType", Message: fmt.Sprintf("model %s needs it: one of search_document, search_query, classification, clustering, image", c.Model)}
	}
	if p.compress, err = zstd.NewFramer(); err != nil {
		return fmt.Errorf("cannot compress: %w", err)
	}
	return p.configure(c.cohereConfig, "inputField", c.From, "outputField", c.To)
}

// Process implements sdk.Processor.
func (p *embed) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	return p.inRequests(ctx, b, p.config.MaxTexts, p.embedAll)
}

// inRequests calls do with the texts of at most size records at a time; do decides the fate of these records. A request
// that the service refuses is repeated for each record, because a single record may be the cause.
func (p *cohere) inRequests(ctx context.Context, b *sdk.ProcessBatch, size int, do func(ctx context.Context, b *sdk.ProcessBatch, indices []int, texts []string) error) error {
	var indices []int
	var texts []string
	flush := func() {
		p.request(ctx, b, indices, texts, do)
		indices, texts = indices[:0], texts[:0]
	}
	for i, r := range b.Records(ctx) {
		text, err := p.from.text(r)
		if err != nil {
			b.Refuse(i, fmt.Errorf("cannot read the field: %w", err))
			continue
		}
		if indices, texts = append(indices, i), append(texts, text); len(texts) == size {
			flush()
		}
	}
	if len(texts) > 0 && ctx.Err() == nil {
		flush()
	}
	return ctx.Err()
}

func (p *cohere) request(ctx context.Context, b *sdk.ProcessBatch, indices []int, texts []string, do func(context.Context, *sdk.ProcessBatch, []int, []string) error) {
	err := sdk.InTime(ctx, func(ctx context.Context) error { return do(ctx, b, indices, texts) })
	var status *httpcall.StatusError
	if len(indices) > 1 && errors.As(err, &status) && isAboutContent(status.Status) {
		for n := range indices {
			if ctx.Err() != nil {
				return
			}
			p.request(ctx, b, indices[n:n+1], texts[n:n+1], do)
		}
		return
	}
	if err != nil {
		for _, i := range indices {
			b.Refuse(i, err)
		}
	}
}

// isAboutContent reports whether a single text may be the cause of the status.
func isAboutContent(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity
}

func (p *embed) embedAll(ctx context.Context, b *sdk.ProcessBatch, indices []int, texts []string) error {
	request := struct {
		Model          string   `json:"model"`
		Texts          []string `json:"texts"`
		InputType      string   `json:"input_type,omitempty"`
		EmbeddingTypes []string `json:"embedding_types"`
	}{p.config.Model, texts, p.config.InputType, []string{"float"}}
	var answer struct {
		Embeddings struct {
			Float []json.RawMessage `json:"float"`
		} `json:"embeddings"`
	}
	if err := p.service.post(ctx, "/v2/embed", request, &answer); err != nil {
		return fmt.Errorf("cannot get embeddings: %w", err)
	}
	if len(answer.Embeddings.Float) != len(texts) {
		return fmt.Errorf("cannot use the answer: it has %d embeddings for %d texts", len(answer.Embeddings.Float), len(texts))
	}
	for n, i := range indices {
		err := b.Take(i, len(answer.Embeddings.Float[n]))
		if err == nil {
			err = p.keep(b.Record(i), answer.Embeddings.Float[n])
		}
		if err != nil {
			b.Refuse(i, err)
		}
	}
	return nil
}

func (p *embed) keep(r *record.Record, embedding json.RawMessage) error {
	text, err := vectorText(embedding)
	if err != nil {
		return err
	}
	if err := p.to.ref.Set(r, p.compress([]byte(text))); err != nil {
		return fmt.Errorf("cannot keep the embedding: %w", err)
	}
	r.Metadata.Set("cohere.embed.model", p.config.Model)
	return nil
}

type rerankConfig struct {
	cohereConfig
	Query string `json:"query" desc:"The query that is answered." validate:"required"`
	Model string `json:"model" default:"rerank-v3.5" desc:"Name of the model."`
	From  string `json:"request.body" default:".Payload.After" desc:"Reference to the field to send."`
	To    string `json:"response.body" default:".Payload.After" desc:"Reference to the field for the rating."`
}

// rerank is the processor cohere.rerank.
type rerank struct {
	cohere
	config rerankConfig
}

// maxDocuments is the maximum number of records in one request.
const maxDocuments = 1000

// Parameters implements sdk.Processor.
func (*rerank) Parameters() sdk.Parameters { return sdk.ParametersOf(rerankConfig{}) }

// Configure implements sdk.Processor.
func (p *rerank) Configure(_ context.Context, settings map[string]string) error {
	if err := sdk.Decode(settings, &p.config); err != nil {
		return err
	}
	c := p.config
	return p.configure(c.cohereConfig, "request.body", c.From, "response.body", c.To)
}

// Process implements sdk.Processor.
func (p *rerank) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	return p.inRequests(ctx, b, maxDocuments, p.rate)
}

type rating struct {
	Document struct {
		Text string `json:"text"`
	} `json:"document"`
	Index     int     `json:"index"`
	Relevance float64 `json:"relevance_score"`
}

// rate assigns every record the score for its own text: the service returns the texts sorted by relevance.
func (p *rerank) rate(ctx context.Context, b *sdk.ProcessBatch, indices []int, texts []string) error {
	request := map[string]any{"model": p.config.Model, "query": p.config.Query, "documents": texts}
	var answer struct {
		Results []rating `json:"results"`
	}
	if err := p.service.post(ctx, "/v2/rerank", request, &answer); err != nil {
		return fmt.Errorf("cannot get the rating: %w", err)
	}
	ratings := make([]*rating, len(texts))
	for i := range answer.Results {
		if n := answer.Results[i].Index; n >= 0 && n < len(texts) {
			ratings[n] = &answer.Results[i]
		}
	}
	for n, i := range indices {
		if ratings[n] == nil {
			b.Refuse(i, errors.New("cannot use the answer: it has no rating of this record"))
			continue
		}
		ratings[n].Document.Text = texts[n]
		err := b.Take(i, len(texts[n]))
		if err == nil {
			err = p.keep(b.Record(i), ratings[n])
		}
		if err != nil {
			b.Refuse(i, fmt.Errorf("cannot keep the rating: %w", err))
		}
	}
	return nil
}

func (p *rerank) keep(r *record.Record, rated *rating) error {
	text, err := json.Marshal(rated)
	if err != nil {
		return err
	}
	return p.to.ref.Set(r, text)
}
