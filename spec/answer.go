package spec

// Answer is what a request with an idempotency key was answered.
type Answer struct {
	Request []byte // digest of the request
	Status  int
	Header  map[string][]string
	Body    []byte
}
