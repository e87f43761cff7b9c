package s3

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// identity gets an access key from the first provider that has one.
type identity struct {
	names     []string
	providers []credentials.Provider
	current   credentials.Provider
}

// newIdentity returns credentials that are fetched on first use and again when they expire: from the environment, a
// file or a role, as from says, or from the first of these that has any if from is auto. The profile in the file is
// name, or AWS_PROFILE, or default; the sdk.Env of ctx must allow the file. Without a key, fetching fails with a
// noKeyError.
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

// roleEndpoint returns the endpoint for role credentials if the environment overrides Amazon's.
func roleEndpoint() string {
	if os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "" {
		return os.Getenv("AWS_ENDPOINT_URL_STS")
	}
	if os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != "" ||
		os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI") != "" {
		return ""
	}
	return os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT")
}

// RetrieveWithCredContext implements credentials.Provider. A missing key is an error: requests are never anonymous.
func (id *identity) RetrieveWithCredContext(c *credentials.CredContext) (credentials.Value, error) {
	var errs []error
	for i, p := range id.providers {
		value, err := p.RetrieveWithCredContext(c)
		if err == nil && value.AccessKeyID != "" && value.SecretAccessKey != "" {
			id.current = p
			return value, nil
		}
		if err == nil {
			err = errors.New("not found")
		}
		errs = append(errs, fmt.Errorf("%s: %w", id.names[i], err))
	}
	return credentials.Value{}, noKeyError{errors.Join(errs...)}
}

// noKeyError reports that there is no access key.
type noKeyError struct{ error }

// Error lists the places that were searched for a key.
func (e noKeyError) Error() string { return "no access key found:\n" + e.error.Error() }

// Retrieve implements credentials.Provider.
func (id *identity) Retrieve() (credentials.Value, error) { return id.RetrieveWithCredContext(nil) }

// IsExpired implements credentials.Provider.
func (id *identity) IsExpired() bool { return id.current == nil || id.current.IsExpired() }
