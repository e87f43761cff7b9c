package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/network"
)

// RabbitMQ is a node with the users test, whose password is test, and conduit.
type RabbitMQ struct {
	*Process
	Addr        string // host and port
	definitions string // path of the file with users, and with queues at the first start
	objects     map[string]any
}

// URL returns the URL of the node.
func (r *RabbitMQ) URL() string { return "amqp://" + r.Addr }

// StartRabbitMQ starts a node with durable queues, each given as NAME or NAME:TYPE, where a type is classic, quorum or
// stream, and with additional lines of configuration. The user conduit has the password.
func StartRabbitMQ(t testing.TB, password string, queues []string, lines ...string) *RabbitMQ {
	t.Helper()
	const scripts = "/usr/lib/rabbitmq/bin" // those in PATH need the user rabbitmq
	path := Need(t, "rabbitmq-server", "rabbitmq-server", scripts)
	dir, port := Dir(t), network.FreePort(t)
	r := &RabbitMQ{Addr: fmt.Sprintf("127.0.0.1:%d", port), definitions: filepath.Join(dir, "definitions.json")}
	declared := []map[string]any{} // not null, which a node refuses
	for _, q := range queues {
		name, kind, _ := strings.Cut(q, ":")
		arguments := map[string]any{}
		if kind != "" {
			arguments["x-queue-type"] = kind
		}
		declared = append(declared, map[string]any{"name": name, "vhost": "/", "durable": true, "auto_delete": false,
			"arguments": arguments})
	}
	r.objects = map[string]any{
		"vhosts": []map[string]any{{"name": "/"}, {"name": "empty"}}, "queues": declared,
		"permissions": []map[string]any{permission("test"), permission("conduit")},
	}
	r.SetPassword(t, password)
	config := filepath.Join(dir, "rabbitmq.conf")
	text := fmt.Sprintf("listeners.tcp.1 = %s\nload_definitions = %s\nvm_memory_high_watermark.absolute = 1GB\n"+
		"disk_free_limit.absolute = 1MB\nlog.console.level = warning\nlog.file = false\n%s\n", r.Addr, r.definitions,
		strings.Join(lines, "\n"))
	plugins := filepath.Join(dir, "enabled_plugins")
	for file, content := range map[string]string{config: text, plugins: "[].\n"} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	names := startEPMD(t)
	_, own, _ := net.SplitHostPort(names)
	// As under systemd, the script is replaced by the node: otherwise the node would survive a test that is killed.
	env := []string{"RUNNING_UNDER_SYSTEMD=1", "RABBITMQ_NODENAME=r" + strconv.Itoa(port) + "@localhost",
		"RABBITMQ_CONFIG_FILE=" + config,
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(dir, "data"), "RABBITMQ_ENABLED_PLUGINS_FILE=" + plugins,
		"RABBITMQ_LOG_BASE=" + dir, "RABBITMQ_LOGS=-", "RABBITMQ_DIST_PORT=" + strconv.Itoa(network.FreePort(t)),
		"RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_PID_FILE=" + filepath.Join(dir, "pid"),
		"ERL_EPMD_ADDRESS=127.0.0.1", "ERL_EPMD_PORT=" + own,
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 2:2 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}"}
	const slow = 3 * time.Minute // an idle machine needs five seconds to start a node
	r.Process = &Process{Path: path, Dir: dir, Env: env, Ready: r.answers, Timeout: slow}
	r.Launch(t)
	delete(r.objects, "queues") // a node that declares a stream again at its next start may lose messages
	r.SetPassword(t, password)
	return r
}

func permission(user string) map[string]any {
	return map[string]any{"user": user, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
}

// startEPMD starts the name server of Erlang, which a node would otherwise leave running, and returns its address.
func startEPMD(t testing.TB) string {
	t.Helper()
	port := network.FreePort(t)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	p := &Process{Path: Need(t, "epmd", "erlang-base"), Args: []string{"-address", "127.0.0.1", "-port",
		strconv.Itoa(port)}, Dir: Dir(t), Ready: func(ctx context.Context) error { return accepts(ctx, address) }}
	p.Launch(t)
	return address
}

// answers returns nil when the node speaks AMQP.
func (r *RabbitMQ) answers(ctx context.Context) error {
	_, err := greeting(ctx, r.Addr, "AMQP\x00\x00\x09\x01", 1)
	return err
}

// SetPassword replaces the password of conduit. It takes effect at the next start of the node.
func (r *RabbitMQ) SetPassword(t testing.TB, password string) {
	t.Helper()
	user := func(name, password string) map[string]any {
		salt := "salt"
		sum := sha256.Sum256([]byte(salt + password))
		return map[string]any{"name": name, "tags": "", "hashing_algorithm": "rabbit_password_hashing_sha256",
			"password_hash": base64.StdEncoding.EncodeToString(append([]byte(salt), sum[:]...))}
	}
	r.objects["users"] = []map[string]any{user("test", "test"), user("conduit", password)}
	text, err := json.Marshal(r.objects)
	if err == nil {
		err = os.WriteFile(r.definitions, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
