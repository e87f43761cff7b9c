package peer

import "net/http"

// MaxHeader is the maximum size of the headers of a response in bytes. A client keeps each header, which takes many
// times as much memory.
const MaxHeader = 1 << 20

// Transport returns a transport like http.DefaultTransport, for servers whose responses have at most MaxHeader bytes of
// headers. The reader of the body limits its size, after decompression.
func Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = MaxHeader
	return t
}
