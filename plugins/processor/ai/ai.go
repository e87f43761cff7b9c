// Package ai has the processors that call language models: ollama, openai.* and cohere.*.
package ai

import "github.com/conduit-agent/conduit/plugins/sdk"

// Plugins returns the processors of this package.
func Plugins() []sdk.ProcessorPlugin {
	plugins := []sdk.ProcessorPlugin{
		{
			Name: "ollama", Summary: "Transform a field with a model served by Ollama.",
			Description: "Sends the field, which must be an object, with the prompt to the model, and replaces the " +
				"field by the object in the response.",
			New: instance(ollama),
		},
		{
			Name: "openai.textgen", Summary: "Generate text from a field with a model of OpenAI.",
			Description: "Sends developer_message and the field as a user message, and replaces the " +
				"field by the response.",
			New: instance(openaiTextgen),
		},
		{
			Name: "openai.embeddings", Summary: "Compute an embedding of a field with a model of OpenAI.",
			Description: "Replaces the field by its embedding, a JSON array of numbers.",
			New:         instance(openaiEmbeddings),
		},
		{
			Name: "cohere.command", Summary: "Generate text from a field with a command model of Cohere.",
			Description: "The text of the field replaces %s in the prompt, or is appended to a prompt without %s.",
			New:         instance(cohereCommand),
		},
		{
			Name: "cohere.embed", Summary: "Compute an embedding of a field with an embed model of Cohere.",
			Description: "Stores the embedding as a JSON array of numbers, compressed with zstd, and the name of the " +
				"model in the metadata cohere.embed.model. A request contains several records.",
			New: instance(cohereEmbed),
		},
		{
			Name: "cohere.rerank", Summary: "Rate the relevance of a field for a query with a rerank model of Cohere.",
			Description: "Stores an object with document, index and relevance_score. A request contains " +
				"all records of a batch.",
			New: instance(cohereRerank),
		},
	}
	for i := range plugins {
		plugins[i].Version, plugins[i].Author = "v0.1.0", "conduit"
		plugins[i].Description += " A request without a response, or with status 429 or 5xx, is retried with " +
			"exponential backoff; a record with another error is refused."
	}
	return plugins
}
