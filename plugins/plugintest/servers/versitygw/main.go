// Command versitygw runs a gateway of the S3 protocol over a directory.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	addr := flag.String("addr", "", "host:port to listen at")
	data := flag.String("data", "", "directory of the buckets")
	versions := flag.String("versions", "", "directory of former versions")
	secret := flag.String("secret", "", "file with the secret of the access key conduit")
	cert := flag.String("cert", "", "file with certificate and key, for TLS")
	domain := flag.String("domain", "", "domain below which buckets are hosts")
	flag.Parse()

	word, err := os.ReadFile(*secret)
	if err != nil {
		return err
	}
	be, err := posix.New(*data, meta.XattrMeta{}, posix.PosixOpts{VersioningDir: *versions, ValidateBucketNames: true,
		Concurrency: 100})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return embedgw.RunVersityGW(ctx, be, &embedgw.Config{
		RootUserAccess: "conduit", RootUserSecret: strings.TrimSpace(string(word)), Region: "us-east-1",
		Ports: []string{*addr}, CertFile: *cert, KeyFile: *cert,
		VirtualDomain: *domain, MaxConnections: 1000, MaxRequests: 1000, MultipartMaxParts: 10_000, Quiet: true,
	})
}
