package connector

import (
	"fmt"
	"strings"
)

// InstanceID returns the id by which a plugin knows a connector in a pipeline with several instances. The plugin uses
// it to name everything the connector has in another system, such as sessions, groups of transactions and positions.
// The id of the first instance is the connector's own id.
func InstanceID(connectorID string, instance int) string {
	if instance <= 1 {
		return connectorID
	}
	return fmt.Sprintf("%s/instance-%d", connectorID, instance) // connector ids contain no slash
}

// DeclaredID returns the connector id from which InstanceID made instanceID.
func DeclaredID(instanceID string) string {
	id, _, _ := strings.Cut(instanceID, "/")
	return id
}
