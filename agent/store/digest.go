package store

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/spec"
)

// digest identifies what of p affects running, its status included.
func digest(p *spec.Pipeline) (string, error) {
	q := *p
	q.Name, q.Description = "", ""
	q.Connectors = slices.Clone(p.Connectors)
	for i := range q.Connectors {
		q.Connectors[i].Name = ""
	}
	slices.SortFunc(q.Connectors, func(a, b spec.Connector) int { return strings.Compare(a.ID, b.ID) })
	text, err := encode(&q)
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16]), err
}
