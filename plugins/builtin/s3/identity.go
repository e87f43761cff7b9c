package s3

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// identity gets an access key from the first of the providers that has one.
type identity struct {
	names     []string
	providers []credentials.Provider
	current   credentials.Provider
}

// newIdentity returns credentials that are got when they are first asked for, and again when they expire: from the
// environment, a file or a role, as from says, or from the first of them that has any if it is auto. The profile is that
// of the file, which must be allowed by the sdk.Env of ctx; without one it is AWS_PROFILE, or default. Getting them
// fails with NoKeyError.
func newIdentity(ctx context.Context, from, name, region string) *credentials.Credentials {
	id := &identity{}
	add := func(kind string, p credentials.Provider) {
		if from == kind || from == "auto" {
			id.names, id.providers = append(id.names, kind), append(id.providers, p)
		}
	}
	add("environment", &credentials.EnvAWS{})
	add("file", &profile{ctx: context.WithoutCancel(ctx), name: name})
	add("role", &credentials.IAM{Region: region, Endpoint: roleEndpoint()})
	return credentials.New(id)
}

// roleEndpoint returns where a role is asked for, when the environment names another place than
// Amazon's.
func roleEndpoint() string {
	if os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "" {
		return os.Getenv("AWS_ENDPOINT_URL_STS")
	}
	if os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != "" || os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI") != "" {
		return ""
	}
	return os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT")
}

// RetrieveWithCredContext implements credentials.Provider. Without a key it is an error: requests
// are never anonymous.
func (id *identity) RetrieveWithCredContext(c *credentials.CredContext) (credentials.Value, error) {
	var errs []error
	for i, p := range id.providers {
		value, err := p.RetrieveWithCredContext(c)
		if err == nil && value.AccessKeyID != "" && value.SecretAccessKey != "" {
			id.current = p
			return value, nil
		}
		if err == nil {
			err = errors.New("there is none")
		}
		errs = append(errs, fmt.Errorf("%s: %w", id.names[i], err))
	}
	return credentials.Value{}, noKeyError{errors.Join(errs...)}
}

// noKeyError reports that there is no access key.
type noKeyError struct{ error }

// Error lists where a key was sought.
func (e noKeyError) Error() string { return "there is no access key:\n" + e.error.Error() }

// Retrieve implements credentials.Provider.
func (id *identity) Retrieve() (credentials.Value, error) { return id.RetrieveWithCredContext(nil) }

// IsExpired implements credentials.Provider.
func (id *identity) IsExpired() bool { return id.current == nil || id.current.IsExpired() }
