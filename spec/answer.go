package spec

// Answer is the answer to a request with an idempotency key.
type Answer struct {
	Request []byte // digest of the request
	Status  int
	Header  map[string][]string
	Body    []byte
}
