//go:build !minimal

package ai

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/httpcall"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// openaiConfig are the settings of all openai.* processors.
type openaiConfig struct {
	APIKey         string  `json:"api_key" desc:"Key of the API." validate:"required"`
	BaseURL        string  `json:"base_url" default:"https://api.openai.com/v1" desc:"Where the API is."`
	Model          string  `json:"model" desc:"Name of the model." validate:"required"`
	Field          string  `json:"field" default:".Payload.After" desc:"Reference to the field."`
	User           string  `json:"user" desc:"Who the request is for, as the service gets it."`
	MaxRetries     int     `json:"max_retries" default:"3" desc:"How often a request is sent again." validate:"gt=-1"`
	InitialBackoff int     `json:"initial_backoff" default:"1000" desc:"The first pause, in milliseconds." validate:"gt=-1"`
	MaxBackoff     int     `json:"max_backoff" default:"30000" desc:"The longest pause, in milliseconds." validate:"gt=-1"`
	BackoffFactor  float64 `json:"backoff_factor" default:"2.0" desc:"By what the pauses grow." validate:"gt=0"`
	timeLimit
}

// openai is the common part of all openai.* processors.
type openai struct {
	sdk.ProcessorBase
	field   field
	service service
}

func (p *openai) configure(c openaiConfig) (err error) {
	if p.field, err = parseField("field", c.Field, true); err != nil {
		return err
	}
	retry := httpcall.Retry{Count: c.MaxRetries, Factor: c.BackoffFactor,
		Min: time.Duration(c.InitialBackoff) * time.Millisecond, Max: time.Duration(c.MaxBackoff) * time.Millisecond}
	p.service, err = newService("base_url", c.BaseURL, "api_key", c.APIKey, c.Timeout, retry)
	return err
}

// SchemaParts implements sdk.SchemaUser.
func (p *openai) SchemaParts() schema.Parts { return partsOf(p.field) }

type textgenConfig struct {
	openaiConfig
	DeveloperMessage    string            `json:"developer_message" desc:"What the model is to do." validate:"required"`
	MaxTokens           *int              `json:"max_tokens" desc:"How many tokens may be made."`
	MaxCompletionTokens *int              `json:"max_completion_tokens" desc:"How many tokens may be made, with those of reasoning."`
	N                   *int              `json:"n" desc:"How many answers are made. The first is used."`
	Seed                *int              `json:"seed" desc:"Seed for answers that are the same again, as far as the service can."`
	TopLogProbs         *int              `json:"top_log_probs" desc:"How many probable tokens are returned for each place."`
	Temperature         *float64          `json:"temperature" desc:"Temperature of sampling."`
	TopP                *float64          `json:"top_p" desc:"Share of probability that is sampled from."`
	PresencePenalty     *float64          `json:"presence_penalty" desc:"Penalty for tokens that were there."`
	FrequencyPenalty    *float64          `json:"frequency_penalty" desc:"Penalty for tokens that were there often."`
	Stop                []string          `json:"stop" desc:"Texts at which to stop: a comma list."`
	LogitBias           map[string]int    `json:"logit_bias" desc:"Bias of tokens, by their ids."`
	LogProbs            *bool             `json:"log_probs" desc:"Whether probabilities of tokens are returned."`
	Store               *bool             `json:"store" desc:"Whether the service keeps the answer."`
	ReasoningEffort     string            `json:"reasoning_effort" desc:"How much the model reasons."`
	StrictOutput        bool              `json:"strict_output" default:"false" desc:"Not used."`
	Stream              *bool             `json:"stream" desc:"Not used."`
	Metadata            map[string]string `json:"metadata" desc:"Not used."`
}

// textgen is the processor openai.textgen.
type textgen struct {
	openai
	request chatRequest // without messages
	message chatMessage // message of the developer
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type chatRequest struct {
	Model               string         `json:"model"`
	Messages            []chatMessage  `json:"messages"`
	MaxTokens           *int           `json:"max_tokens,omitempty"`
	MaxCompletionTokens *int           `json:"max_completion_tokens,omitempty"`
	N                   *int           `json:"n,omitempty"`
	Seed                *int           `json:"seed,omitempty"`
	TopLogProbs         *int           `json:"top_logprobs,omitempty"`
	Temperature         *float64       `json:"temperature,omitempty"`
	TopP                *float64       `json:"top_p,omitempty"`
	PresencePenalty     *float64       `json:"presence_penalty,omitempty"`
	FrequencyPenalty    *float64       `json:"frequency_penalty,omitempty"`
	Stop                []string       `json:"stop,omitempty"`
	LogitBias           map[string]int `json:"logit_bias,omitempty"`
	LogProbs            *bool          `json:"logprobs,omitempty"`
	Store               *bool          `json:"store,omitempty"`
	ReasoningEffort     string         `json:"reasoning_effort,omitempty"`
	User                string         `json:"user,omitempty"`
}

// Parameters implements sdk.Processor.
func (*textgen) Parameters() sdk.Parameters { return sdk.ParametersOf(textgenConfig{}) }

// Configure implements sdk.Processor.
func (p *textgen) Configure(_ context.Context, settings map[string]string) error {
	var c textgenConfig
	if err := sdk.Decode(settings, &c); err != nil {
		return err
	}
	p.message = chatMessage{"developer", c.DeveloperMessage}
	p.request = chatRequest{Model: c.Model, MaxTokens: c.MaxTokens, MaxCompletionTokens: c.MaxCompletionTokens, N: c.N, Seed: c.Seed,
		TopLogProbs: c.TopLogProbs, Temperature: c.Temperature, TopP: c.TopP, PresencePenalty: c.PresencePenalty, FrequencyPenalty: c.FrequencyPenalty,
		Stop: c.Stop, LogitBias: c.LogitBias, LogProbs: c.LogProbs, Store: c.Store, ReasoningEffort: c.ReasoningEffort, User: c.User}
	return p.configure(c.openaiConfig)
}

// Process implements sdk.Processor.
func (p *textgen) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	return each(ctx, b, func(ctx context.Context, r *record.Record) error {
		return transform(p.field, p.field, r, func(text string) (string, error) { return p.generate(ctx, text) })
	})
}

func (p *textgen) generate(ctx context.Context, text string) (string, error) {
	request := p.request
	request.Messages = []chatMessage{p.message, {"user", text}}
	var answer struct {
		Choices []struct {
			Message struct {
				Content *string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := p.service.post(ctx, "/chat/completions", request, &answer); err != nil {
		return "", fmt.Errorf("cannot ask the model: %w", err)
	}
	if len(answer.Choices) == 0 || answer.Choices[0].Message.Content == nil {
		return "", errors.New("cannot use the answer of the model: it has no text")
	}
	return *answer.Choices[0].Message.Content, nil
}

type embeddingsConfig struct {
	openaiConfig
	Dimensions     *int   `json:"dimensions" desc:"How many numbers the embedding has."`
	EncodingFormat string `json:"encoding_format" desc:"How numbers travel: float or base64. It makes no difference to the record." validate:"inclusion=float|base64"`
}

// embeddings is the processor openai.embeddings.
type embeddings struct {
	openai
	config embeddingsConfig
}

// Parameters implements sdk.Processor.
func (*embeddings) Parameters() sdk.Parameters { return sdk.ParametersOf(embeddingsConfig{}) }

// Configure implements sdk.Processor.
func (p *embeddings) Configure(_ context.Context, settings map[string]string) error {
	if err := sdk.Decode(settings, &p.config); err != nil {
		return err
	}
	return p.configure(p.config.openaiConfig)
}

// Process implements sdk.Processor.
func (p *embeddings) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	return each(ctx, b, func(ctx context.Context, r *record.Record) error {
		return transform(p.field, p.field, r, func(text string) (string, error) { return p.embedding(ctx, text) })
	})
}

func (p *embeddings) embedding(ctx context.Context, text string) (string, error) {
	request := struct {
		Model          string `json:"model"`
		Input          string `json:"input"`
		Dimensions     *int   `json:"dimensions,omitempty"`
		EncodingFormat string `json:"encoding_format,omitempty"`
		User           string `json:"user,omitempty"`
	}{p.config.Model, text, p.config.Dimensions, p.config.EncodingFormat, p.config.User}
	var answer struct {
		Data []struct {
			Embedding json.RawMessage `json:"embedding"`
		} `json:"data"`
	}
	if err := p.service.post(ctx, "/embeddings", request, &answer); err != nil {
		return "", fmt.Errorf("cannot get the embedding: %w", err)
	}
	if len(answer.Data) == 0 {
		return "", errors.New("cannot use the answer: it has no embedding")
	}
	return vectorText(answer.Data[0].Embedding)
}

// vectorText converts an embedding to a JSON array. The embedding is an array of numbers, or 32-bit floats in base64.
func vectorText(raw json.RawMessage) (string, error) {
	var encoded []byte
	if len(raw) > 0 && raw[0] == '"' {
		if err := json.Unmarshal(raw, &encoded); err != nil || len(encoded)%4 != 0 {
			return "", errors.New("cannot use the embedding: it is no base64 of numbers")
		}
		numbers := make([]float32, len(encoded)/4)
		for i := range numbers {
			numbers[i] = math.Float32frombits(binary.LittleEndian.Uint32(encoded[4*i:]))
		}
		b, err := json.Marshal(numbers)
		return string(b), err
	}
	var numbers []float64
	if err := json.Unmarshal(raw, &numbers); err != nil || numbers == nil {
		return "", errors.New("cannot use the embedding: it is no array of numbers")
	}
	var text bytes.Buffer
	err := json.Compact(&text, raw) // keep the digits of the service
	return text.String(), err
}
