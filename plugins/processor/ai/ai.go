// Package ai has the processors that call language models: ollama, openai.* and cohere.*.
package ai

import "github.com/conduit-agent/conduit/plugins/sdk"

// Plugins returns the processors of this package.
func Plugins() []sdk.ProcessorPlugin {
	plugins := []sdk.ProcessorPlugin{
		{
			Name: "ollama", Summary: "Have a model that Ollama serves change a field.",
			Description: "Sends the field, which is an object, with the prompt to the model, and puts the object " +
				"that it answers with in its place.",
			New: instance(ollama),
		},
		{
			Name: "openai.textgen", Summary: "Have a model of OpenAI make text of a field.",
			Description: "Sends the field as the message of a user, after developer_message, and puts the answer in " +
				"its place.",
			New: instance(openaiTextgen),
		},
		{
			Name: "openai.embeddings", Summary: "Make an embedding of a field with a model of OpenAI.",
			Description: "Puts the embedding in the place of the field, as a JSON array of numbers.",
			New:         instance(openaiEmbeddings),
		},
		{
			Name: "cohere.command", Summary: "Have a command model of Cohere make text of a field.",
			Description: "The text of the field takes the place of %s in the prompt, or follows a prompt without it.",
			New:         instance(cohereCommand),
		},
		{
			Name: "cohere.embed", Summary: "Make an embedding of a field with an embed model of Cohere.",
			Description: "Keeps the embedding as a JSON array of numbers that is compressed with zstd, and the name " +
				"of the model in the metadata cohere.embed.model. Several records go into one request.",
			New: instance(cohereEmbed),
		},
		{
			Name: "cohere.rerank", Summary: "Rate with a rerank model of Cohere how well a field answers a query.",
			Description: "Keeps an object with document, index and relevance_score. All records of a batch go into " +
				"one request.",
			New: instance(cohereRerank),
		},
	}
	for i := range plugins {
		plugins[i].Version, plugins[i].Author = "v0.1.0", "conduit"
		plugins[i].Description += " A request that gets no answer, 429 or 5xx is sent again after pauses that grow; " +
			"other errors refuse the record."
	}
	return plugins
}
