package cli

import (
	"encoding/json"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"

	"github.com/conduit-agent/conduit/agent/notification"
)

// notifications checks the targets of notifications, and sends none.
func (e *examination) notifications() {
	c := e.config.Notify
	if c.Webhook.URL == "" && c.Command.Run == "" {
		e.add("notifications", OK, "", "not configured")
		return
	}
	before := len(e.findings)
	if c.Webhook.URL != "" {
		e.webhook()
	}
	if c.Command.Run != "" {
		e.notifyCommand()
	}
	if len(e.findings) == before {
		e.add("notifications", OK, "", "valid; 'conduit notify test' sends one")
	}
}

func (e *examination) webhook() {
	c := e.config.Notify.Webhook
	if _, err := notification.NewWebhook(c.URL, nil, ""); err != nil {
		e.add("notifications", Error, "correct notify.webhook.url", "%v", err)
		return
	}
	if u, err := url.Parse(c.URL); err == nil && u.Scheme == "http" && u.Hostname() != "localhost" &&
		!net.ParseIP(u.Hostname()).IsLoopback() {
		e.add("notifications", Warning, "use https: without it anyone on the network path can read notifications",
			"notify.webhook.url is not encrypted")
	}
	if c.SecretFile == "" {
		e.add("notifications", Warning, "'echo \"whsec_$(openssl rand -base64 32)\"' makes a secret for the "+
			"file that notify.webhook.secret-file names", "notifications are not signed: the receiver cannot verify the sender")
	} else if text, err := os.ReadFile(c.SecretFile); err == nil { // else another check reports it
		if err := notification.CheckSecret(strings.TrimSpace(string(text))); err != nil {
			e.add("notifications", Error, "", "%v", err)
		}
	}
}

func (e *examination) notifyCommand() {
	c := e.config.Notify.Command
	if _, err := notification.NewCommand(c.Run, nil, c.Timeout); err != nil {
		e.add("notifications", Error, "correct notify.command.run", "%v", err)
		return
	}
	var args []string
	_ = json.Unmarshal([]byte(c.Run), &args) // it is a list, see above
	if _, err := exec.LookPath(args[0]); err != nil {
		e.add("notifications", Error, "install it, or correct notify.command.run", "%v", err)
	}
}
