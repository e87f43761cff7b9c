// Command kfake runs a broker of Kafka's protocol that keeps its data on disk.
package main

import (
	"bufio"
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	port := flag.Int("port", 0, "port on 127.0.0.1")
	data := flag.String("data", "data", "directory of the data")
	topics := flag.String("topics", "", "topics to begin with, as name:partitions,…")
	advertise := flag.String("advertise", "", "file with the host:port to advertise to clients")
	users := flag.String("users", "", "file with a line MECHANISM user password for each user")
	cert := flag.String("cert", "", "file with certificate and key, for TLS; clients prove themselves by the same "+
		"certificate")
	config := flag.String("config", "", "configuration of the broker, as key=value,…")
	flag.Parse()

	opts := []kfake.Opt{kfake.Ports(*port), kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(3),
		kfake.ListenFn(listen(*advertise)), kfake.DataDir(*data), kfake.SyncWrites()}
	for topic := range strings.SplitSeq(*topics, ",") {
		name, partitions, _ := strings.Cut(topic, ":")
		if n, err := strconv.Atoi(partitions); err == nil {
			opts = append(opts, kfake.SeedTopics(int32(n), name))
		}
	}
	configs := map[string]string{}
	for one := range strings.SplitSeq(*config, ",") {
		if k, v, ok := strings.Cut(one, "="); ok {
			configs[k] = v
		}
	}
	opts = append(opts, kfake.BrokerConfigs(configs))
	if *users != "" { // the users in the file replace the previous ones
		_ = os.Remove(filepath.Join(*data, "sasl.json"))
	}
	more, err := security(*users, *cert)
	if err != nil {
		return err
	}
	numbers, err := newSequences(*data)
	if err != nil {
		return err
	}
	cluster, err := kfake.NewCluster(append(opts, more...)...)
	if err != nil {
		return err
	}
	numbers.attach(cluster)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	<-ended
	cluster.Close()
	return numbers.keep()
}

func security(users, cert string) (opts []kfake.Opt, err error) {
	if users != "" {
		f, err := os.Open(users)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		opts = append(opts, kfake.EnableSASL())
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var mechanism, user, password string
			if _, err := fmt.Sscan(lines.Text(), &mechanism, &user, &password); err != nil {
				return nil, fmt.Errorf("cannot read the users: %w", err)
			}
			opts = append(opts, kfake.Superuser(mechanism, user, password))
		}
	}
	if cert != "" {
		c, err := tlsConfig(cert)
		if err != nil {
			return nil, err
		}
		opts = append(opts, kfake.TLS(c))
	}
	return opts, nil
}

func tlsConfig(path string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(path, path)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}, nil
}

// listen creates listeners that report the address in the file, if there is one: the broker then directs clients to
// that address, a proxy.
func listen(advertise string) func(network, address string) (net.Listener, error) {
	return func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		if err != nil || advertise == "" {
			return l, err
		}
		return &advertised{Listener: l, path: advertise}, nil
	}
}

type advertised struct {
	net.Listener
	path string
}

// Addr returns the address in the file, or the listener's address while there is no file.
func (a *advertised) Addr() net.Addr {
	text, err := os.ReadFile(a.path)
	if err != nil {
		return a.Listener.Addr()
	}
	addr, err := net.ResolveTCPAddr("tcp", strings.TrimSpace(string(text)))
	if err != nil {
		return a.Listener.Addr()
	}
	return addr
}
