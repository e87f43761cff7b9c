package peer

import "net/http"

// MaxHeader is the maximum size of the headers of an answer in bytes. A client keeps each header, which takes many
// times as much memory.
const MaxHeader = 1 << 20

// Transport returns a transport like http.DefaultTransport, for servers whose answers have no more than MaxHeader bytes
// of headers. Whoever reads the body bounds it, after decompression.
func Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = MaxHeader
	return t
}
