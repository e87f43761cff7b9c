package kafka

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// saslSettings are the settings for authentication.
type saslSettings struct {
	// Authentication mechanism of this client. Empty: none, or the certificate.
	Mechanism string `json:"saslMechanism" validate:"inclusion=PLAIN|SCRAM-SHA-256|SCRAM-SHA-512|OAUTHBEARER"`
	// User, or id of the OAuth client.
	Username string `json:"saslUsername"`
	// Password, or secret of the OAuth client.
	Password string `json:"saslPassword"`
	// Token for OAUTHBEARER, if saslTokenURL is not set. By reference, such as ${file:/run/conduit/kafka-token}.
	Token string `json:"saslToken"`
	// URL from which OAUTHBEARER gets tokens, with the client credentials grant of OAuth 2.
	TokenURL string `json:"saslTokenURL"`
	// Scopes to request, separated by spaces.
	Scope string `json:"saslScope"`
}

// mechanism returns the SASL mechanism, or nil if the settings name none.
func (s *saslSettings) mechanism() (sasl.Mechanism, error) {
	if s.Mechanism == "OAUTHBEARER" {
		return s.oauth()
	}
	if (s.Username == "") != (s.Password == "") {
		return nil, sdk.SettingError{Setting: "saslMechanism",
			Message: "invalid sasl auth, please specify both saslUsername and saslPassword"}
	}
	if s.Mechanism != "" && s.Username == "" {
		return nil, sdk.SettingError{Setting: "saslMechanism",
			Message: s.Mechanism + " needs saslUsername and saslPassword"}
	}
	switch s.Mechanism {
	case "PLAIN":
		return plain.Auth{User: s.Username, Pass: s.Password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return boundedSCRAM{scram.Auth{User: s.Username, Pass: s.Password}.AsSha256Mechanism()}, nil
	case "SCRAM-SHA-512":
		return boundedSCRAM{scram.Auth{User: s.Username, Pass: s.Password}.AsSha512Mechanism()}, nil
	}
	return nil, nil
}

// boundedSCRAM is SCRAM with a limit on the iterations that a broker may request.
type boundedSCRAM struct{ sasl.Mechanism }

// Authenticate implements sasl.Mechanism.
func (m boundedSCRAM) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	s, first, err := m.Mechanism.Authenticate(ctx, host)
	return scramSession{s}, first, err
}

type scramSession struct{ sasl.Session }

const maxIterations = 1_000_000 // the default of brokers is 4096

// Challenge implements sasl.Session.
func (s scramSession) Challenge(answer []byte) (bool, []byte, error) {
	for part := range bytes.SplitSeq(answer, []byte(",")) {
		if digits, ok := bytes.CutPrefix(part, []byte("i=")); ok {
			if n, err := strconv.Atoi(string(digits)); err != nil || n > maxIterations {
				return false, nil, fmt.Errorf(
					"cannot log in with SCRAM: the broker requires %.20q iterations, more than the maximum of %d",
					digits,
					maxIterations)
			}
		}
	}
	return s.Session.Challenge(answer)
}

// oauth returns a mechanism that authenticates each connection with a currently valid token.
func (s *saslSettings) oauth() (sasl.Mechanism, error) {
	if (s.Token == "") == (s.TokenURL == "") {
		return nil, sdk.SettingError{Setting: "saslMechanism",
			Message: "OAUTHBEARER needs either saslToken or saslTokenURL"}
	}
	if s.Token != "" {
		return oauth.Auth{Token: s.Token}.AsMechanism(), nil
	}
	tokens := &tokenSource{url: s.TokenURL, id: s.Username, secret: s.Password, scope: s.Scope}
	return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
		token, err := tokens.token(ctx)
		return oauth.Auth{Token: token}, err
	}), nil
}
