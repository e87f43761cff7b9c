package api

import (
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/schemas"
)

// joinPath appends a name to the path of a field. A name with dots is quoted.
func joinPath(path, name string) string {
	if strings.ContainsAny(name, ".[]\" ") || name == "" {
		name = strconv.Quote(name)
		return path + "[" + name + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// followPointer appends the tokens of a JSON pointer to path.
func followPointer(path, tokens string) string {
	if tokens == "" {
		return path
	}
	for token := range strings.SplitSeq(tokens, "/") {
		if _, err := strconv.Atoi(token); err == nil {
			path += "[" + token + "]"
			continue
		}
		path = joinPath(path, schemas.UnescapePointer(token))
	}
	return path
}
