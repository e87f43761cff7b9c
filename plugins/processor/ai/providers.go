package ai

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/httpcall"
	"github.com/conduit-agent/conduit/plugins/processor/jsonvalue"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

// timeLimit is a setting of all processors of this package.
type timeLimit struct {
	// Timeout for each attempt.
	Timeout time.Duration `json:"timeout" default:"1m" validate:"gt=0s"`
}

// backoff holds the retry settings of most processors of this package.
type backoff struct {
	// Maximum number of retries of a request.
	Count int `json:"backoffRetry.count" default:"0" validate:"gt=-1"`
	// Factor between consecutive retry delays.
	Factor float64 `json:"backoffRetry.factor" default:"2" validate:"gt=0"`
	// Delay of the first retry.
	Min time.Duration `json:"backoffRetry.min" default:"100ms" validate:"gt=-1s"`
	// Maximum retry delay.
	Max time.Duration `json:"backoffRetry.max" default:"5s" validate:"gt=-1s"`
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type ollamaSettings struct {
	// URL of the Ollama server, for example http://localhost:11434.
	URL string `json:"url" validate:"required"`
	// Reference to the field, which must be an object.
	Field string `json:"field" default:".Payload.After" validate:"regex=^\\.?[pP]ayload"`
	// Name of the model.
	Model string `json:"model" default:"llama3.2"`
	// Instruction for the model.
	Prompt string `json:"prompt"`
	timeLimit
	backoff
}

// maxPrompt bounds the length of a prompt.
const maxPrompt = 4096

// suspicious lists texts that no well-meant prompt contains.
var suspicious = []string{"rm -rf", "drop table", "<script>", "javascript:", "data:text/html"}

func ollama(s ollamaSettings) (operation, error) {
	if len(s.Prompt) > maxPrompt {
		return operation{}, sdk.SettingError{Setting: "prompt",
			Message: fmt.Sprintf("must not be longer than %d bytes", maxPrompt)}
	}
	for _, text := range suspicious {
		if strings.Contains(strings.ToLower(s.Prompt), text) {
			return operation{}, sdk.SettingError{Setting: "prompt",
				Message: fmt.Sprintf("must not contain %q", text)}
		}
	}
	return operation{
		url: setting{"url", s.URL}, path: "/api/generate", timeout: s.Timeout, retry: httpcall.Retry(s.backoff),
		from: setting{"field", s.Field}, to: setting{"field", s.Field}, texts: 1, purpose: "query the model",
		request: func(texts []string) (any, error) {
			var object map[string]any
			if err := json.Unmarshal([]byte(texts[0]), &object); err != nil || object == nil {
				return nil, fmt.Errorf("cannot use %s: it is not an object", s.Field)
			}
			prompt := fmt.Sprintf("Instructions: {%s}\n Record: {%s}\n Suffix {Answer with the record that the "+
				"instructions make of this one, as one JSON object, and with nothing else.}", s.Prompt, texts[0])
			return map[string]any{"model": s.Model, "prompt": prompt, "format": "json", "stream": false}, nil
		},
		results: func(answer []byte, n int) results {
			if string(at(answer, "done")) != "true" {
				return results{err: errors.New("cannot use the response of the model: it is incomplete")}
			}
			return oneAt("response")(answer, n)
		},
		value: func(_ string, result json.RawMessage) (any, error) {
			var text string
			_ = json.Unmarshal(result, &text)
			value, _ := jsonvalue.Parse([]byte(text))
			if object, ok := value.(map[string]any); ok {
				return object, nil
			}
			return nil, errors.New("cannot use the response of the model: it is not a JSON object")
		},
	}, nil
}

// openaiSettings are the settings of all openai.* processors.
type openaiSettings struct {
	// Key of the API.
	APIKey string `json:"api_key" validate:"required"`
	// URL of the API.
	BaseURL string `json:"base_url" default:"https://api.openai.com/v1"`
	// Name of the model.
	Model string `json:"model" validate:"required"`
	// Reference to the field.
	Field string `json:"field" default:".Payload.After"`
	// Identifier of the end user, sent to the service.
	User string `json:"user"`
	// Maximum number of retries of a request.
	MaxRetries int `json:"max_retries" default:"3" validate:"gt=-1"`
	// Delay of the first retry in milliseconds.
	InitialBackoff int `json:"initial_backoff" default:"1000" validate:"gt=-1"`
	// Maximum retry delay in milliseconds.
	MaxBackoff int `json:"max_backoff" default:"30000" validate:"gt=-1"`
	// Factor between consecutive retry delays.
	BackoffFactor float64 `json:"backoff_factor" default:"2.0" validate:"gt=0"`
	timeLimit
}

// operation returns what all openai.* processors have in common.
func (s *openaiSettings) operation() operation {
	return operation{
		url: setting{"base_url", s.BaseURL}, key: setting{"api_key", s.APIKey}, timeout: s.Timeout,
		retry: httpcall.Retry{Count: s.MaxRetries, Factor: s.BackoffFactor,
			Min: time.Duration(s.InitialBackoff) * time.Millisecond,
			Max: time.Duration(s.MaxBackoff) * time.Millisecond},
		from: setting{"field", s.Field}, to: setting{"field", s.Field}, texts: 1,
	}
}

type textgenSettings struct {
	openaiSettings
	// Instruction for the model.
	DeveloperMessage string `json:"developer_message" validate:"required"`
	// Maximum number of generated tokens.
	MaxTokens *int `json:"max_tokens"`
	// Maximum number of generated tokens, including reasoning.
	MaxCompletionTokens *int `json:"max_completion_tokens"`
	// Number of generated responses. Only the first is used.
	N *int `json:"n"`
	// Seed for reproducible responses, as far as the service supports it.
	Seed *int `json:"seed"`
	// Number of most likely tokens to return for each position.
	TopLogProbs *int `json:"top_log_probs"`
	// Sampling temperature.
	Temperature *float64 `json:"temperature"`
	// Probability mass for nucleus sampling.
	TopP *float64 `json:"top_p"`
	// Penalty for tokens that have already occurred.
	PresencePenalty *float64 `json:"presence_penalty"`
	// Penalty for tokens, proportional to their number of occurrences.
	FrequencyPenalty *float64 `json:"frequency_penalty"`
	// Comma-separated texts at which generation stops.
	Stop []string `json:"stop"`
	// Bias of tokens, by token id.
	LogitBias map[string]int `json:"logit_bias"`
	// Whether the service returns token probabilities.
	LogProbs *bool `json:"log_probs"`
	// Whether the service stores the response.
	Store *bool `json:"store"`
	// Reasoning effort of the model.
	ReasoningEffort string `json:"reasoning_effort"`
	// Not used.
	StrictOutput bool `json:"strict_output" default:"false"`
	// Not used.
	Stream *bool `json:"stream"`
	// Not used.
	Metadata map[string]string `json:"metadata"`
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

func openaiTextgen(s textgenSettings) (operation, error) {
	o := s.operation()
	o.path, o.purpose = "/chat/completions", "query the model"
	o.request = func(texts []string) (any, error) {
		return chatRequest{Model: s.Model,
			Messages:  []chatMessage{{"developer", s.DeveloperMessage}, {"user", texts[0]}},
			MaxTokens: s.MaxTokens, MaxCompletionTokens: s.MaxCompletionTokens, N: s.N, Seed: s.Seed,
			TopLogProbs: s.TopLogProbs,
			Temperature: s.Temperature, TopP: s.TopP, PresencePenalty: s.PresencePenalty,
			FrequencyPenalty: s.FrequencyPenalty,
			Stop:             s.Stop, LogitBias: s.LogitBias, LogProbs: s.LogProbs, Store: s.Store,
			ReasoningEffort: s.ReasoningEffort,
			User:            s.User}, nil
	}
	o.results, o.value = oneAt("choices.0.message.content"), textOf("it has no text")
	return o, nil
}

type embeddingsSettings struct {
	openaiSettings
	// Number of dimensions of the embedding.
	Dimensions *int `json:"dimensions"`
	// Encoding of numbers in transit: float or base64. It does not affect the record.
	EncodingFormat string `json:"encoding_format" validate:"inclusion=float|base64"`
}

func openaiEmbeddings(s embeddingsSettings) (operation, error) {
	o := s.operation()
	o.path, o.purpose = "/embeddings", "get the embedding"
	o.request = func(texts []string) (any, error) {
		return struct {
			Model          string `json:"model"`
			Input          string `json:"input"`
			Dimensions     *int   `json:"dimensions,omitempty"`
			EncodingFormat string `json:"encoding_format,omitempty"`
			User           string `json:"user,omitempty"`
		}{s.Model, texts[0], s.Dimensions, s.EncodingFormat, s.User}, nil
	}
	o.results = oneAt("data.0.embedding")
	o.value = func(_ string, result json.RawMessage) (any, error) { return vectorText(result) }
	return o, nil
}

// vectorText converts an embedding to a JSON array. The embedding is an array of numbers, or 32-bit floats in base64.
func vectorText(raw json.RawMessage) (string, error) {
	if raw == nil {
		return "", errors.New("cannot use the response: it has no embedding")
	}
	var encoded []byte
	if len(raw) > 0 && raw[0] == '"' {
		if err := json.Unmarshal(raw, &encoded); err != nil || len(encoded)%4 != 0 {
			return "", errors.New("cannot use the embedding: it is not base64 of 32-bit numbers")
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
		return "", errors.New("cannot use the embedding: it is not an array of numbers")
	}
	var text bytes.Buffer
	err := json.Compact(&text, raw) // keep the digits of the service
	return text.String(), err
}

// cohereSettings are the settings of all cohere.* processors.
type cohereSettings struct {
	// Key of the API.
	APIKey string `json:"apiKey" validate:"required"`
	// URL of the API.
	BaseURL string `json:"baseURL" default:"https://api.cohere.com"`
	timeLimit
	backoff
}

// operation returns what all cohere.* processors have in common.
func (s *cohereSettings) operation() operation {
	return operation{url: setting{"baseURL", s.BaseURL}, key: setting{"apiKey", s.APIKey}, timeout: s.Timeout,
		retry: httpcall.Retry(s.backoff)}
}

type commandSettings struct {
	cohereSettings
	// Name of the model.
	Model string `json:"model" default:"command"`
	// Prompt for the model. %s is replaced by the text of the field.
	Prompt string `json:"prompt" validate:"required"`
	// Reference to the field to send.
	From string `json:"request.body" default:".Payload.After"`
	// Reference to the field for the response.
	To string `json:"response.body" default:".Payload.After"`
}

func cohereCommand(s commandSettings) (operation, error) {
	o := s.operation()
	o.path, o.purpose, o.texts = "/v2/chat", "query the model", 1
	o.from, o.to = setting{"request.body", s.From}, setting{"response.body", s.To}
	o.request = func(texts []string) (any, error) {
		messages := []chatMessage{{"user", fillPrompt(s.Prompt, texts[0])}}
		return map[string]any{"model": s.Model, "stream": false, "messages": messages}, nil
	}
	o.results = oneAt("message.content")
	o.value = func(text string, result json.RawMessage) (any, error) {
		if string(at(result, "0.type")) != `"text"` || at(result, "1") != nil {
			result = nil
		}
		return textOf("it is not exactly one text")(text, at(result, "0.text"))
	}
	return o, nil
}

// fillPrompt replaces %s in the prompt by the text, or appends the text to a prompt without %s. %% stands for %.
func fillPrompt(prompt, text string) string {
	filled := strings.NewReplacer("%s", text, "%%", "%").Replace(prompt)
	if !strings.Contains(strings.ReplaceAll(prompt, "%%", ""), "%s") {
		filled += "\n" + text
	}
	return filled
}

type embedSettings struct {
	cohereSettings
	// Name of the model.
	Model string `json:"model" default:"embed-english-v2.0"`
	// Use of the embedding, such as search_document. Required for models from v3.
	InputType string `json:"inputType"`
	// Reference to the field to send.
	From string `json:"inputField" default:".Payload.After"`
	// Reference to the field for the embedding.
	To string `json:"outputField" default:".Payload.After"`
	// Maximum number of records in a request, up to 96.
	MaxTexts int `json:"maxTextsPerRequest" default:"96" validate:"gt=0,lt=97"`
}

func cohereEmbed(s embedSettings) (operation, error) {
	if s.InputType == "" && !strings.Contains(s.Model, "v2") {
		return operation{}, sdk.SettingError{Setting: "inputType", Message: fmt.Sprintf("is required for model %s: "+
			"one of search_document, search_query, classification, clustering, image", s.Model)}
	}
	compress, err := zstd.NewFramer()
	if err != nil {
		return operation{}, fmt.Errorf("cannot compress: %w", err)
	}
	o := s.operation()
	o.path, o.purpose, o.texts = "/v2/embed", "get embeddings", s.MaxTexts
	o.from, o.to = setting{"inputField", s.From}, setting{"outputField", s.To}
	o.request = func(texts []string) (any, error) {
		return struct {
			Model          string   `json:"model"`
			Texts          []string `json:"texts"`
			InputType      string   `json:"input_type,omitempty"`
			EmbeddingTypes []string `json:"embedding_types"`
		}{s.Model, texts, s.InputType, []string{"float"}}, nil
	}
	o.results = func(answer []byte, n int) (r results) {
		_ = json.Unmarshal(at(answer, "embeddings.float"), &r.all)
		if len(r.all) != n {
			r.err = fmt.Errorf("cannot use the response: it has %d embeddings for %d texts", len(r.all), n)
		}
		return r
	}
	o.value = func(_ string, result json.RawMessage) (any, error) {
		text, err := vectorText(result)
		return compress([]byte(text)), err
	}
	o.done = func(r *record.Record) { r.Metadata.Set("cohere.embed.model", s.Model) }
	return o, nil
}

type rerankSettings struct {
	cohereSettings
	// Query that the relevance is computed for.
	Query string `json:"query" validate:"required"`
	// Name of the model.
	Model string `json:"model" default:"rerank-v3.5"`
	// Reference to the field to send.
	From string `json:"request.body" default:".Payload.After"`
	// Reference to the field for the rating.
	To string `json:"response.body" default:".Payload.After"`
}

// maxDocuments is the maximum number of records in one request.
const maxDocuments = 1000

type rating struct {
	Document struct {
		Text string `json:"text"`
	} `json:"document"`
	Index     int     `json:"index"`
	Relevance float64 `json:"relevance_score"`
}

func cohereRerank(s rerankSettings) (operation, error) {
	o := s.operation()
	o.path, o.purpose, o.texts = "/v2/rerank", "get the rating", maxDocuments
	o.from, o.to = setting{"request.body", s.From}, setting{"response.body", s.To}
	o.request = func(texts []string) (any, error) {
		return map[string]any{"model": s.Model, "query": s.Query, "documents": texts}, nil
	}
	// The service returns the texts sorted by relevance; every record gets the rating of its text.
	o.results = func(answer []byte, n int) results {
		var all []json.RawMessage
		_ = json.Unmarshal(at(answer, "results"), &all)
		r := results{all: make([]json.RawMessage, n)}
		for _, result := range all {
			if i := (rating{Index: -1}); json.Unmarshal(result, &i) == nil && i.Index >= 0 && i.Index < n {
				r.all[i.Index] = result
			}
		}
		return r
	}
	o.value = func(text string, result json.RawMessage) (any, error) {
		var rated rating
		if result == nil || json.Unmarshal(result, &rated) != nil {
			return nil, errors.New("cannot use the response: it has no rating of this record")
		}
		rated.Document.Text = text
		return json.Marshal(rated)
	}
	return o, nil
}
