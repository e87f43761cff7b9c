package connector

import (
	"fmt"
	"strings"
)

// InstanceID returns the id by which a plugin knows a connector in one of several instances of its pipeline, which
// it names after the connector whatever it has in another system: sessions, groups of transactions, positions. That
// of the first instance is the connector's own.
func InstanceID(connectorID string, instance int) string {
	if instance <= 1 {
		return connectorID
	}
	return fmt.Sprintf("%s/instance-%d", connectorID, instance) // no id of a connector has a slash
}

// DeclaredID returns the id of the connector that InstanceID was made of.
func DeclaredID(instanceID string) string {
	id, _, _ := strings.Cut(instanceID, "/")
	return id
}
