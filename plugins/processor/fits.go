package processor

import (
	"fmt"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// tries are the names of the settings that control the retries of a request.
type tries struct{ timeout, count, factor, min, max string }

// requests are the built-in processors that send requests.
var requests = map[string]tries{
	"webhook.http": {"request.timeout", "backoffRetry.count", "backoffRetry.factor", "backoffRetry.min",
		"backoffRetry.max"},
	"enrich.http":       {"timeout", "retries", "", "backoff.min", "backoff.max"},
	"ollama":            {timeout: "timeout"},
	"openai.textgen":    openai,
	"openai.embeddings": openai,
	"cohere.command":    cohere,
	"cohere.embed":      cohere,
	"cohere.rerank":     cohere,
}

var (
	openai = tries{"timeout", "max_retries", "backoff_factor", "initial_backoff", "max_backoff"}
	cohere = tries{"timeout", "backoffRetry.count", "backoffRetry.factor", "backoffRetry.min", "backoffRetry.max"}
)

// checkTime returns a warning, and its setting, if all attempts of a request may take longer than limit. A timeout
// counts only if it is set. References are not resolved: settings with references cause no warning.
func checkTime(plugin sdk.ProcessorPlugin, settings map[string]string, limit time.Duration) (setting, warning string) {
	names, ok := requests[plugin.Name]
	if !ok || limit <= 0 {
		return "", ""
	}
	all := Parameters(plugin).ApplyDefaults(settings)
	number := func(name string) float64 {
		text, known := spec.LiteralText(all[name])
		ok = ok && known
		n, _ := strconv.ParseFloat(text, 64)
		return n
	}
	seconds := func(name string) float64 {
		text, known := spec.LiteralText(all[name])
		ok = ok && known
		if d, err := time.ParseDuration(text); err == nil {
			return d.Seconds()
		}
		return number(name) / 1000 // in milliseconds
	}
	factor := 2.0
	if names.factor != "" {
		factor = number(names.factor)
	}
	count, pause, longest := number(names.count), seconds(names.min), max(seconds(names.max), seconds(names.min))
	takes, setting := 0.0, names.count
	for try := 0.0; try < count && pause > 0 && takes <= limit.Seconds(); try++ {
		takes += min(pause, longest) / 2 // lower bound: jitter takes up to half
		pause *= factor
	}
	if settings[names.timeout] != "" {
		takes, setting = takes+seconds(names.timeout)*(count+1), names.timeout
	}
	if !ok || takes <= limit.Seconds() {
		return "", ""
	}
	lower := names.count
	if setting == names.timeout {
		lower = names.timeout
		if count > 0 {
			lower += " or " + names.count
		}
	}
	return setting, fmt.Sprintf("with all tries a record may take longer than %s (processors.timeout), after which "+
		"it is refused: "+
		"lower %s, or raise processors.timeout", limit, lower)
}
