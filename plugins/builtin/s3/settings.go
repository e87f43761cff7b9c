package s3

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// bucketSettings are the settings for connecting to a bucket, for both source and destination. The settings for keys,
// region, bucket, endpoint, and path style have the same names as in Conduit's connector.
type bucketSettings struct {
	// Name of the bucket.
	Bucket string `json:"aws.bucket" validate:"required"`
	// Region of the bucket.
	Region string `json:"aws.region" validate:"required,regex=^[A-Za-z0-9._-]+$"`
	// URL of a store other than Amazon's, such as https://minio.example.com:9000. Default: AWS_ENDPOINT_URL_S3 or
	// AWS_ENDPOINT_URL, if set, or Amazon's.
	Endpoint string `json:"aws.endpoint"`
	// Whether the bucket is in the path of URLs instead of the host name. Always true if the endpoint is an IP address.
	PathStyle bool `json:"aws.pathStyle" default:"false"`
	// Source of the access key. keys: these settings. environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. file:
	// an access key in ~/.aws/credentials. role: web identity, container or instance. auto: the first that exists.
	Identity string `json:"aws.identity" default:"auto" validate:"inclusion=auto|keys|environment|file|role"`
	// Id of the access key.
	AccessKeyID string `json:"aws.accessKeyId"`
	// Secret of the access key. By reference, such as ${file:/etc/conduit/s3-secret}.
	SecretAccessKey string `json:"aws.secretAccessKey"`
	// Session token of a temporary access key.
	SessionToken string `json:"aws.sessionToken"`
	// Profile in the credentials file. Default: AWS_PROFILE, or default.
	Profile string `json:"aws.profile"`
	// Timeout of a request, and a second more for each 256 KiB of a body.
	Timeout time.Duration `json:"timeout" default:"30s" validate:"gt=0"`

	common.TLS
}

func (s *bucketSettings) check(ctx context.Context) error {
	wrong := func(setting, message string) error { return sdk.SettingError{Setting: setting, Message: message} }
	keys := s.AccessKeyID != ""
	switch {
	case keys && s.SecretAccessKey == "":
		return wrong("aws.secretAccessKey", "is required with aws.accessKeyId")
	case !keys && s.SecretAccessKey != "":
		return wrong("aws.accessKeyId", "is required with aws.secretAccessKey")
	case !keys && s.SessionToken != "":
		return wrong("aws.accessKeyId", "is required with aws.sessionToken")
	case !keys && s.Identity == "keys":
		return wrong("aws.accessKeyId", "is required with aws.identity keys")
	case keys && s.Identity != "auto" && s.Identity != "keys":
		return wrong("aws.accessKeyId", "cannot be set with aws.identity "+s.Identity)
	}
	if u, err := s.endpoint(); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
		strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" {
		return wrong("aws.endpoint", "must be a URL such as https://minio.example.com:9000, without a path or a user")
	}
	if s.Identity == "file" {
		if err := checkIdentity(ctx); err != nil {
			return err
		}
	}
	_, err := s.Client()
	return err
}

// credentials returns the access key of the settings, or a provider of another identity.
func (s *bucketSettings) credentials(ctx context.Context) *credentials.Credentials {
	if s.AccessKeyID != "" {
		return credentials.NewStaticV4(s.AccessKeyID, s.SecretAccessKey, s.SessionToken)
	}
	return newIdentity(ctx, s.Identity, s.Profile, s.Region)
}

func (s *bucketSettings) endpoint() (*url.URL, error) {
	return url.Parse(cmp.Or(s.Endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), s.amazon()))
}

// amazon returns Amazon's endpoint for the region.
func (s *bucketSettings) amazon() string {
	if strings.HasPrefix(s.Region, "cn-") {
		return "https://s3." + s.Region + ".amazonaws.com.cn"
	}
	return "https://s3." + s.Region + ".amazonaws.com"
}

// inPath reports whether URLs have the bucket in the path. Certificates do not cover the host for a bucket with a dot
// in its name.
func (s *bucketSettings) inPath(u *url.URL) bool {
	return s.PathStyle || strings.Contains(s.Bucket, ".") || net.ParseIP(u.Hostname()) != nil ||
		u.Hostname() == "localhost"
}
