package s3

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestProfiles reads profiles of both files, including profiles that have another source of credentials in place of an
// access key.
func TestProfiles(t *testing.T) {
	const keys = "aws_access_key_id = id\naws_secret_access_key = a/secret+key=\n"
	ran := filepath.Join(t.TempDir(), "ran")
	for _, c := range []struct{ name, config, credentials, profile, want string }{
		{"default", "", "[default]\n" + keys, "", "id a/secret+key= "},
		{"config", "[default]\n" + keys, "", "", "id a/secret+key= "},
		{"profile of config", "[profile other]\n" + keys + "[other]\naws_access_key_id = no\n", "", "other",
			"id a/secret+key= "},
		{"profile of credentials", "", "[other]\n" + keys + "aws_session_token=t", "other", "id a/secret+key= t"},
		{"credentials count more", "[default]\naws_access_key_id = no\naws_secret_access_key = no\n",
			"[default]\n" + keys, "",
			"id a/secret+key= "},
		{"comments, indented, quoted", "", "# x\n[default] ; x\ns3 =\n  aws_access_key_id = no\n" +
			"aws_access_key_id=\"id\" # x\r\n  aws_secret_access_key\t=\ta/secret+key= ; x\n", "", "id a/secret+key= "},
		{"half", "", "[default]\naws_access_key_id = id\n", "", "set both or neither"},
		{"none", "[profile a]\n" + keys, "[b]\n" + keys, "a b", "file: not found"},
		{"program", "[default]\ncredential_process = /usr/bin/touch " + ran + "\n", "", "", "credential_process"},
		{"program beside keys", "[default]\ncredential_process = /usr/bin/touch " + ran + "\n", "[default]\n" + keys,
			"",
			"id a/secret+key= "},
		{"sso", "[profile s]\nsso_session = x\nsso_role_name = y\n", "", "s", "sso_session"},
		{"other profile", "[profile s]\nrole_arn = x\nsource_profile = y\n", "", "s", "source_profile"},
	} {
		t.Run(c.name, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("HOME", home)
			for _, v := range []string{"AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
				t.Setenv(v, "")
			}
			err := os.Mkdir(filepath.Join(home, ".aws"), 0o700)
			for name, content := range map[string]string{"config": c.config, "credentials": c.credentials} {
				if content != "" {
					err = errors.Join(err, os.WriteFile(filepath.Join(home, ".aws", name), []byte(content), 0o600))
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			v, err := newIdentity(t.Context(), "file", c.profile, "r").GetWithContext(nil)
			if got := v.AccessKeyID + " " + v.SecretAccessKey + " " + v.SessionToken; err == nil && got != c.want ||
				err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("it ran a program")
			}
		})
	}
}

// TestFileThatIsNotAllowed checks that a file that settings may not name is a setting error with a remedy, and that
// other identities ignore the file.
func TestFileThatIsNotAllowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte("[default]\naws_access_key_id = id\naws_secret_access_key = s\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", path)
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1")
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{AllowPath: func(p string) error {
		return errors.New(p + " is not allowed")
	}})
	var refused sdk.SettingError
	err := checkIdentity(ctx)
	if !errors.As(err, &refused) || refused.Setting != "aws.identity" ||
		!strings.Contains(err.Error(), "aws.accessKeyId") {
		t.Errorf("the check says %v", err)
	}
	if v, err := newIdentity(ctx, "auto", "", "r").GetWithContext(nil); err == nil ||
		!strings.Contains(err.Error(), path+" is not allowed") {
		t.Errorf("%v, %v", v, err)
	}
	if err := checkIdentity(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("without allowed paths: %v", err)
	}
}
