package s3_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/s3"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
)

// identities serves access keys: as the security token service and as the metadata service of an instance. The keys
// have no session token, which this store does not support.
func identities(t *testing.T) string {
	expires := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.FormValue("WebIdentityToken") == "web-token" && r.FormValue("RoleArn") == "arn:aws:iam::1:role/r":
			_, _ = fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>conduit</AccessKeyId><SecretAccessKey>%s</SecretAccessKey>
<SessionToken></SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>`, secret, expires)
		case r.URL.Path == "/latest/api/token":
			_, _ = fmt.Fprint(w, "metadata-token")
		case r.URL.Path == "/latest/meta-data/iam/security-credentials/":
			_, _ = fmt.Fprint(w, "r")
		case strings.HasSuffix(r.URL.Path, "/r") && r.Header.Get("X-Aws-Ec2-Metadata-Token") == "metadata-token":
			_, _ = fmt.Fprintf(w,
				`{"Code":"Success","AccessKeyId":"conduit","SecretAccessKey":%q,"Token":"","Expiration":%q}`,
				secret, expires)
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestIdentities gets access keys from the environment, a file, a web identity and an instance.
func TestIdentities(t *testing.T) {
	s, dir := store(t), t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("credentials", "[other]\naws_access_key_id = conduit\naws_secret_access_key = "+secret+"\n")
	service := identities(t)
	for name, variables := range map[string]map[string]string{
		"environment": {"AWS_ACCESS_KEY_ID": "conduit", "AWS_SECRET_ACCESS_KEY": secret},
		"file":        {"AWS_SHARED_CREDENTIALS_FILE": file},
		"web": {"AWS_WEB_IDENTITY_TOKEN_FILE": write("token", "web-token"), "AWS_ROLE_ARN": "arn:aws:iam::1:role/r",
			"AWS_ENDPOINT_URL_STS": service},
		"instance": {"AWS_EC2_METADATA_SERVICE_ENDPOINT": service},
	} {
		identity := map[string]string{"web": "role", "instance": "role"}[name]
		if identity == "" {
			identity = name
		}
		for _, identity := range []string{identity, "auto"} {
			t.Run(name+" "+identity, func(t *testing.T) {
				for _, v := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SHARED_CREDENTIALS_FILE",
					"AWS_WEB_IDENTITY_TOKEN_FILE"} {
					t.Setenv(v, variables[v])
				}
				for v, value := range variables {
					t.Setenv(v, value)
				}
				t.Setenv("HOME", dir)
				set := settings(s.Addr, "aws.identity", identity, "aws.profile", "other")
				delete(set, "aws.accessKeyId")
				delete(set, "aws.secretAccessKey")
				source(t, set, nil)
			})
		}
	}
}

// TestTLS trusts only the authorities that the settings name.
func TestTLS(t *testing.T) {
	load.Parallel(t, load.Server)
	cert, key, _ := network.Certificate(t)
	other, _, _ := network.Certificate(t)
	s := server.StartS3(t, secret, cert+key)
	for ca, wanted := range map[string]string{cert: `bucket "bkt" does not exist`, other: "certificate"} {
		src := &s3.Source{}
		if err := src.Configure(t.Context(), settings(s.Addr, "aws.endpoint", "https://"+s.Addr, "tls.ca", ca)); err !=
			nil {
			t.Fatal(err)
		}
		if err := src.Open(t.Context(), nil); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("got %v, want %s", err, wanted)
		}
	}
}
