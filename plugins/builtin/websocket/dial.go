package websocket

//lint:file-ignore SA1019 the successor of nhooyr.io/websocket has the same API under another path

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"nhooyr.io/websocket"

	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
)

// deniedError reports that the server refuses the client, or is none for WebSockets.
type deniedError struct{ error }

func (e deniedError) Unwrap() error { return e.error }

// dialer opens a network connection. Tests replace it.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// maxShown is the maximum size in bytes of a response to a request for a WebSocket.
const maxShown = 1 << 10

// dial opens a connection to the server.
func (s *endpointSettings) dial(ctx context.Context, network dialer) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	client, err := httpclient.New(&s.Auth, new(httpclient.HMAC), &s.TLS, s.Headers, s.Timeout, maxShown, false)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	client.Scheme = "ws"
	client.Transport.ForceAttemptHTTP2 = false // a WebSocket begins with a request of HTTP/1.1
	if network == nil {
		network = client.Transport.DialContext
	}
	var under *watched // of the last connection
	client.Transport.DialContext = func(ctx context.Context, protocol, address string) (net.Conn, error) {
		c, err := network(ctx, protocol, address)
		if err != nil {
			return nil, err
		}
		under = watch(c, s)
		return under, nil
	}
	requester, header := client.Requester()
	//nolint:bodyclose // the library closes it
	ws, response, err := websocket.Dial(ctx, s.URL, &websocket.DialOptions{HTTPClient: requester, HTTPHeader: header,
		Subprotocols: s.Subprotocols})
	switch {
	case err == nil:
		return newConn(ws, under, s), nil
	case response != nil:
		return nil, refusal(client, response, err)
	}
	return nil, client.Failure(hostOf(s.URL), err)
}

func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "the server"
	}
	return u.Host
}

// refusal describes a response that does not open a WebSocket.
func refusal(client *httpclient.Client, r *http.Response, err error) error {
	if r.StatusCode == http.StatusSwitchingProtocols {
		return deniedError{fmt.Errorf("the server opens no WebSocket, check url: %w", err)}
	}
	body, _ := io.ReadAll(r.Body) // the library has read the beginning
	why := client.ResponseError(&httpclient.Response{Status: r.StatusCode, Header: r.Header, Body: body})
	remedy := ""
	switch status := r.StatusCode; {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		remedy = ": check the settings auth.* and headers.*"
	case status == http.StatusNotFound, status == http.StatusGone:
		remedy = ": check the path of url"
	case status/100 == 2:
		remedy = ": it is a page and no WebSocket, check url"
	case status/100 == 4:
		remedy = ": check url, subprotocols and headers.*"
	}
	if why = errors.New(why.Error() + remedy); httpclient.Passes(r.StatusCode) {
		return why
	}
	return deniedError{why}
}
