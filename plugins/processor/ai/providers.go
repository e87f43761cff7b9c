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
	Timeout time.Duration `json:"timeout" default:"1m" desc:"Timeout for each attempt." validate:"gt=0s"`
}

// backoff holds the retry settings of most processors of this package.
type backoff struct {
	Count  int           `json:"backoffRetry.count" default:"0" desc:"Maximum number of retries of a request." validate:"gt=-1"`
	Factor float64       `json:"backoffRetry.factor" default:"2" desc:"Factor between consecutive retry delays." validate:"gt=0"`
	Min    time.Duration `json:"backoffRetry.min" default:"100ms" desc:"Delay of the first retry." validate:"gt=-1s"`
	Max    time.Duration `json:"backoffRetry.max" default:"5s" desc:"Maximum retry delay." validate:"gt=-1s"`
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type ollamaSettings struct {
	URL    string `json:"url" desc:"URL of the Ollama server, for example http://localhost:11434." validate:"required"`
	Field  string `json:"field" default:".Payload.After" desc:"Reference to the field, which must be an object." validate:"regex=^\\.?[pP]ayload"`
	Model  string `json:"model" default:"llama3.2" desc:"Name of the model."`
	Prompt string `json:"prompt" desc:"Instruction for the model."`
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
	APIKey         string  `json:"api_key" desc:"Key of the API." validate:"required"`
	BaseURL        string  `json:"base_url" default:"https://api.openai.com/v1" desc:"URL of the API."`
	Model          string  `json:"model" desc:"Name of the model." validate:"required"`
	Field          string  `json:"field" default:".Payload.After" desc:"Reference to the field."`
	User           string  `json:"user" desc:"Identifier of the end user, sent to the service."`
	MaxRetries     int     `json:"max_retries" default:"3" desc:"Maximum number of retries of a request." validate:"gt=-1"`
	InitialBackoff int     `json:"initial_backoff" default:"1000" desc:"Delay of the first retry in milliseconds." validate:"gt=-1"`
	MaxBackoff     int     `json:"max_backoff" default:"30000" desc:"Maximum retry delay in milliseconds." validate:"gt=-1"`
	BackoffFactor  float64 `json:"backoff_factor" default:"2.0" desc:"Factor between consecutive retry delays." validate:"gt=0"`
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
	DeveloperMessage    string            `json:"developer_message" desc:"Instruction for the model." validate:"required"`
	MaxTokens           *int              `json:"max_tokens" desc:"Maximum number of generated tokens."`
	MaxCompletionTokens *int              `json:"max_completion_tokens" desc:"Maximum number of generated tokens, including reasoning."`
	N                   *int              `json:"n" desc:"Number of generated responses. Only the first is used."`
	Seed                *int              `json:"seed" desc:"Seed for reproducible responses, as far as the service supports it."`
	TopLogProbs         *int              `json:"top_log_probs" desc:"Number of most likely tokens to return for each position."`
	Temperature         *float64          `json:"temperature" desc:"Sampling temperature."`
	TopP                *float64          `json:"top_p" desc:"Probability mass for nucleus sampling."`
	PresencePenalty     *float64          `json:"presence_penalty" desc:"Penalty for tokens that have already occurred."`
	FrequencyPenalty    *float64          `json:"frequency_penalty" desc:"Penalty for tokens, proportional to their number of occurrences."`
	Stop                []string          `json:"stop" desc:"Comma-separated texts at which generation stops."`
	LogitBias           map[string]int    `json:"logit_bias" desc:"Bias of tokens, by token id."`
	LogProbs            *bool             `json:"log_probs" desc:"Whether the service returns token probabilities."`
	Store               *bool             `json:"store" desc:"Whether the service stores the response."`
	ReasoningEffort     string            `json:"reasoning_effort" desc:"Reasoning effort of the model."`
	StrictOutput        bool              `json:"strict_output" default:"false" desc:"Not used."`
	Stream              *bool             `json:"stream" desc:"Not used."`
	Metadata            map[string]string `json:"metadata" desc:"Not used."`
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
	Dimensions     *int   `json:"dimensions" desc:"Number of dimensions of the embedding."`
	EncodingFormat string `json:"encoding_format" desc:"Encoding of numbers in transit: float or base64. It does not affect the record." validate:"inclusion=float|base64"`
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
	APIKey  string `json:"apiKey" desc:"Key of the API." validate:"required"`
	BaseURL string `json:"baseURL" default:"https://api.cohere.com" desc:"URL of the API."`
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
	Model  string `json:"model" default:"command" desc:"Name of the model."`
	Prompt string `json:"prompt" desc:"Prompt for the model. %s is replaced by the text of the field." validate:"required"`
	From   string `json:"request.body" default:".Payload.After" desc:"Reference to the field to send."`
	To     string `json:"response.body" default:".Payload.After" desc:"Reference to the field for the response."`
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
	Model     string `json:"model" default:"embed-english-v2.0" desc:"Name of the model."`
	InputType string `json:"inputType" desc:"Use of the embedding, such as search_document. Required for models from v3."`
	From      string `json:"inputField" default:".Payload.After" desc:"Reference to the field to send."`
	To        string `json:"outputField" default:".Payload.After" desc:"Reference to the field for the embedding."`
	MaxTexts  int    `json:"maxTextsPerRequest" default:"96" desc:"Maximum number of records in a request, up to 96." validate:"gt=0,lt=97"`
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
	Query string `json:"query" desc:"Query that the relevance is computed for." validate:"required"`
	Model string `json:"model" default:"rerank-v3.5" desc:"Name of the model."`
	From  string `json:"request.body" default:".Payload.After" desc:"Reference to the field to send."`
	To    string `json:"response.body" default:".Payload.After" desc:"Reference to the field for the rating."`
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
