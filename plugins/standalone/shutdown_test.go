package standalone_test

import (
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/conduit-agent/conduit/plugins/standalone"
)

// A plugin that cannot receive the request to exit, or does not know it, is killed at once. Another one is not.
func TestRequestToExit(t *testing.T) {
	for name, c := range map[string]struct {
		served bool
		answer error
		kills  int
	}{
		"no connection": {kills: 1},
		"unknown":       {served: true, answer: status.Error(codes.Unimplemented, "?"), kills: 1},
		"exits":         {served: true},
		"exits unheard": {served: true, answer: status.Error(codes.Unavailable, "closing")},
		"does not exit": {served: true, answer: status.Error(codes.DeadlineExceeded, "late")},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			path := filepath.Join(t.TempDir(), "socket")
			if c.served {
				listener, err := net.Listen("unix", path)
				if err != nil {
					t.Fatal(err)
				}
				server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
					if c.answer != nil {
						return c.answer
					}
					return s.SendMsg(&emptypb.Empty{})
				}))
				go func() { _ = server.Serve(listener) }()
				defer server.Stop()
			}
			conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.Connect()
			for state := conn.GetState(); state != connectivity.TransientFailure && state != connectivity.Ready; {
				conn.WaitForStateChange(ctx, state)
				state = conn.GetState()
			}
			kills, err := standalone.RequestExit(ctx, conn)
			if kills != c.kills || (err != nil) != (!c.served || c.answer != nil) {
				t.Errorf("killed %d times, want %d: %v", kills, c.kills, err)
			}
		})
	}
}
