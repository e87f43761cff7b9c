package cli

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

// cause returns the reason why a request failed, without the request.
func cause(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// mistrust returns the remedy when one side refused the certificate of the other, "" for any other error.
func mistrust(err error) string {
	var unverified *tls.CertificateVerificationError
	var op *net.OpError
	switch {
	case errors.As(err, &unverified):
		return distrust(unverified)
	case errors.As(err, &op) && op.Op == "remote error":
		return "Give a certificate that it accepts: api.client.cert-file and api.client.key-file, as settings or flags."
	}
	return ""
}

// distrust returns the remedy for a certificate of the agent that this machine cannot verify.
func distrust(err *tls.CertificateVerificationError) string {
	const pass = "set api.client.ca-file, as a setting or a flag, to "
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	leaf := &x509.Certificate{}
	if len(err.UnverifiedCertificates) > 0 {
		leaf = err.UnverifiedCertificates[0]
	}
	switch {
	case errors.As(err, &host):
		return "Use an address for which the certificate is valid, with --api.address or api.http.address, or make a " +
			"certificate for this one. It is valid for " + terminal.Line(strings.Join(hostsOf(leaf), ", ")) + "."
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("Renew the certificate in api.tls.cert-file of the agent, or set the clock: it is valid from "+
			"%s to %s.", date(leaf.NotBefore), date(leaf.NotAfter))
	case errors.As(err, &unknown) && slices.Equal(leaf.RawIssuer, leaf.RawSubject):
		return "The certificate is self-signed: if the address is correct, " + pass + "a copy of this certificate, which " +
			"is api.tls.cert-file of the agent."
	case errors.As(err, &unknown):
		return fmt.Sprintf("This machine does not know %q, which issued the certificate: if the address is correct, %sthe "+
			"certificate of this authority.", leaf.Issuer, pass)
	}
	return "If the address is correct, " + pass + "the certificate of the authority."
}

// hostsOf returns the names and addresses for which a certificate is valid.
func hostsOf(c *x509.Certificate) []string {
	all := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	if all == nil {
		all = []string{"no host"}
	}
	return all
}

func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// renewal is how long before its end a certificate should be renewed. The alert has the same time.
const renewal = 7 * 24 * time.Hour

// certificate checks the certificate of the API.
func (e *examination) certificate(now time.Time) {
	path := e.config.API.TLS.CertFile
	if path == "" {
		e.add("certificate", OK, "", "the API has none")
		return
	}
	content, err := os.ReadFile(path)
	if err != nil {
		e.add("certificate", Unknown, "", "cannot read api.tls.cert-file: %v", err)
		return
	}
	const renew = "renew the files in api.tls.cert-file and api.tls.key-file; the agent uses them at once"
	block := firstCertificate(content)
	if block == nil {
		e.add("certificate", Error, "name a file with a certificate in PEM", "%s contains no PEM certificate", path)
		return
	}
	c, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		e.add("certificate", Error, renew, "cannot read the certificate in %s: %v", path, err)
	case now.After(c.NotAfter):
		e.add("certificate", Error, renew, "%s expired at %s: clients refuse it", path, date(c.NotAfter))
	case now.Before(c.NotBefore):
		e.add("certificate", Error, "set the clock, or use another certificate", "%s is not valid before %s", path,
			date(c.NotBefore))
	case e.pairError() != nil:
		e.add("certificate", Error, "copy both files of the same renewal", "%s and %s: %v", path,
			e.config.API.TLS.KeyFile, e.pairError())
	case len(c.DNSNames)+len(c.IPAddresses) == 0:
		e.add("certificate", Warning, "make it with a subjectAltName: openssl req … -addext "+
			"subjectAltName=DNS:localhost,IP:127.0.0.1", "%s is valid for no host: clients refuse it", path)
	case now.Add(renewal).After(c.NotAfter):
		e.add("certificate", Warning, renew, "%s expires at %s", path, date(c.NotAfter))
	default:
		e.add("certificate", OK, "", "valid until %s for %s", date(c.NotAfter), strings.Join(hostsOf(c), ", "))
	}
}

// pairError returns the error with which the agent would refuse the files of the certificate and its key, nil for none,
// or if this user may not read the key.
func (e *examination) pairError() error {
	_, err := tls.LoadX509KeyPair(e.config.API.TLS.CertFile, e.config.API.TLS.KeyFile)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// firstCertificate returns the first certificate in a PEM file, which may also have the key; nil if there is none.
func firstCertificate(content []byte) *pem.Block {
	for {
		var block *pem.Block
		if block, content = pem.Decode(content); block == nil || block.Type == "CERTIFICATE" {
			return block
		}
	}
}
