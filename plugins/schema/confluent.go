package schema

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/peer"
)

// ConfluentRegistry is a schema.Registry on a server. It is safe for concurrent use.
type ConfluentRegistry struct {
	URL      *url.URL
	Username string // with Password, for basic authentication; empty: none
	Password string
	Token    string // for bearer authentication; empty: none
}

var _ IDRegistry = (*ConfluentRegistry)(nil)

// NewConfluentRegistry returns the registry at the URL connection.
func NewConfluentRegistry(connection string) (*ConfluentRegistry, error) {
	u, err := url.Parse(connection)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the connection string of the schema registry must be a URL such as " +
			"https://registry.example.com")
	}
	return &ConfluentRegistry{URL: u}, nil
}

// Bounds of a request.
const (
	timeout   = 10 * time.Second
	maxAnswer = 16 << 20 // bytes
)

const mediaType = "application/vnd.schemaregistry.v1+json"

// Error codes of the registry API.
const (
	codeSubjectNotFound = 40401
	codeVersionNotFound = 40402
	codeSchemaNotFound  = 40403
	codeInvalidSchema   = 42201
)

type answer struct {
	Subject    string      `json:"subject"`
	Version    int         `json:"version"`
	ID         int         `json:"id"`
	Type       string      `json:"schemaType"` // empty: Avro
	Schema     string      `json:"schema"`
	References []reference `json:"references"`
	Code       int         `json:"error_code"`
	Message    string      `json:"message"`
}

type request struct {
	Schema string `json:"schema"`
}

// Create implements schema.Registry. The server decides whether the schema is compatible with the previous versions.
func (r *ConfluentRegistry) Create(ctx context.Context, subject string, typ Type, text string) (Schema, error) {
	if typ != TypeAvro {
		return Schema{}, fmt.Errorf("%w: type %d is not Avro", ErrInvalidSchema, typ)
	}
	if _, err := Parse(text); err != nil {
		return Schema{}, err
	}
	body := request{Schema: text}
	if _, err := r.do(ctx, http.MethodPost, body, "subjects", subject, "versions"); err != nil {
		return Schema{}, fmt.Errorf("cannot register a schema of subject %q: %w", subject, err)
	}
	found, err := r.do(ctx, http.MethodPost, body, "subjects", subject) // gets its current version
	if err != nil {
		return Schema{}, fmt.Errorf("cannot find the schema of subject %q after its registration: %w", subject, err)
	}
	return Schema{Subject: subject, Version: found.Version, ID: found.ID, Type: typ, Text: text}, nil
}

// Get implements schema.Registry. The text includes the definitions of referenced types from other subjects.
func (r *ConfluentRegistry) Get(ctx context.Context, subject string, version int) (Schema, error) {
	found, text, err := r.get(ctx, "subjects", subject, "versions", strconv.Itoa(version))
	if err != nil {
		return Schema{}, fmt.Errorf("cannot get version %d of subject %q: %w", version, subject, err)
	}
	return Schema{Subject: subject, Version: version, ID: found.ID, Type: TypeAvro, Text: text}, nil
}

// ByID implements schema.IDRegistry. The text includes the definitions of referenced types, as in Get.
func (r *ConfluentRegistry) ByID(ctx context.Context, id int) (Schema, error) {
	_, text, err := r.get(ctx, "schemas", "ids", strconv.Itoa(id))
	if err != nil {
		return Schema{}, fmt.Errorf("cannot get the schema with id %d: %w", id, err)
	}
	return Schema{ID: id, Type: TypeAvro, Text: text}, nil
}

// get returns the response for one schema, and the text of the schema with its references resolved.
func (r *ConfluentRegistry) get(ctx context.Context, path ...string) (*answer, string, error) {
	found, err := r.do(ctx, http.MethodGet, nil, path...)
	if err != nil {
		return nil, "", err
	}
	if found.Type != "" && found.Type != "AVRO" {
		return nil, "", fmt.Errorf("%w: the type is %s, and only AVRO is supported", ErrInvalidSchema, found.Type)
	}
	if len(found.References) == 0 {
		return found, found.Schema, nil
	}
	text, err := r.resolve(ctx, found)
	return found, text, err
}

// do sends a request to the path made of elements and returns the response.
func (r *ConfluentRegistry) do(ctx context.Context, method string, body any, elements ...string) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	for i := range elements {
		elements[i] = url.PathEscape(elements[i])
	}
	req, err := http.NewRequestWithContext(ctx, method, r.URL.JoinPath(elements...).String(), content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", mediaType)
	if body != nil {
		req.Header.Set("Content-Type", mediaType)
	}
	switch {
	case r.Username != "":
		req.SetBasicAuth(r.Username, r.Password)
	case r.Token != "":
		req.Header.Set("Authorization", "Bearer "+r.Token)
	}
	resp, err := client.Do(req)
	if err != nil {
		if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) {
			err = fmt.Errorf("%w: add the certificate of the authority to the system, or set SSL_CERT_FILE of the "+
				"agent to a file with the certificate", err)
		}
		return nil, err
	}
	defer resp.Body.Close()
	return read(resp)
}

var client = &http.Client{Transport: peer.Transport()}

// remedies are remedies by HTTP status.
var remedies = map[int]string{
	http.StatusUnauthorized: ": set schema-registry.confluent.auth to valid credentials",
	http.StatusForbidden:    ": the user in schema-registry.confluent.auth lacks the permission",
	http.StatusNotFound: ": check that schema-registry.confluent.connection-string is the URL of a schema " +
		"registry, with its path",
}

func read(resp *http.Response) (*answer, error) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	var a answer
	err = json.Unmarshal(text, &a)
	switch {
	case a.Code == codeSubjectNotFound || a.Code == codeSchemaNotFound:
		return nil, ErrSubjectNotFound
	case a.Code == codeVersionNotFound:
		return nil, ErrVersionNotFound
	case a.Code == codeInvalidSchema:
		return nil, fmt.Errorf("%w: %s", ErrInvalidSchema, a.Message)
	case resp.StatusCode != http.StatusOK:
		if a.Message != "" {
			resp.Status += ": " + a.Message
		}
		return nil, fmt.Errorf("the schema registry responded with status %s%s", resp.Status, remedies[resp.StatusCode])
	case err != nil:
		return nil, fmt.Errorf("the response of the schema registry is not JSON: %w", err)
	}
	return &a, nil
}
