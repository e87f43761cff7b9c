package spec

// NotificationResult is the result of a test notification.
type NotificationResult struct {
	// Webhook without its path, or command without its arguments.
	Target    string `json:"target"`
	Delivered bool   `json:"delivered"`
	Error     string `json:"error,omitempty"`
	// Duration in seconds.
	Seconds float64 `json:"seconds"`
}
