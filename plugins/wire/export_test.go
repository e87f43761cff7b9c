package wire

// RegisterToken makes a token as one for a plugin process.
func RegisterToken(s *SchemaServer, connectorID string) (target, token string) {
	return s.register(connectorID)
}

// RevokeToken takes it back.
func RevokeToken(s *SchemaServer, token string) { s.revoke(token) }
