package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// identitySetting is the setting that selects profiles in files as the identity.
const identitySetting = "aws.identity"

// maxIdentityFile bounds the size of a file with profiles.
const maxIdentityFile = 1 << 20

// sharedFile is a file with profiles, in the format of
// https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html.
type sharedFile struct {
	path   string
	prefix string // of section names, except the default profile's
}

// sharedFiles returns the files with profiles, in ascending precedence.
func sharedFiles() ([]sharedFile, error) {
	home, err := os.UserHomeDir()
	config, keys := os.Getenv("AWS_CONFIG_FILE"), os.Getenv("AWS_SHARED_CREDENTIALS_FILE")
	if err != nil && (config == "" || keys == "") {
		return nil, err
	}
	return []sharedFile{{cmp.Or(config, filepath.Join(home, ".aws", "config")), "profile "},
		{cmp.Or(keys, filepath.Join(home, ".aws", "credentials")), ""}}, nil
}

// checkIdentity returns a SettingError if a file with profiles exists that settings may not name.
func checkIdentity(ctx context.Context) error {
	files, err := sharedFiles()
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := f.check(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (f sharedFile) missing() bool {
	_, err := os.Stat(f.path)
	return errors.Is(err, fs.ErrNotExist)
}

// check returns a SettingError if the file exists and settings may not name it.
func (f sharedFile) check(ctx context.Context) error {
	if f.missing() {
		return nil
	}
	err := sdk.CheckPath(ctx, identitySetting, f.path)
	var refused sdk.SettingError
	if errors.As(err, &refused) {
		refused.Message += ": add it there, or set aws.accessKeyId and aws.secretAccessKey by reference"
		return refused
	}
	return err
}

// read returns the section of a profile, or nil if the file or the section does not exist.
func (f sharedFile) read(ctx context.Context, profile string) (map[string]string, error) {
	if f.missing() {
		return nil, nil
	}
	if err := f.check(ctx); err != nil {
		return nil, err
	}
	content, err := sdk.ReadSettingFile(ctx, identitySetting, f.path, maxIdentityFile)
	if err != nil {
		return nil, err
	}
	all := profileSections(string(content))
	if profile == "default" && all[f.prefix+profile] == nil {
		return all[profile], nil
	}
	return all[f.prefix+profile], nil
}

// profileSections returns the keys and values of each section. Indented lines below a key without a value are settings
// of a service, which hold no access key.
func profileSections(content string) map[string]map[string]string {
	all := map[string]map[string]string{}
	var current map[string]string
	nested := false
	for line := range strings.Lines(strings.TrimPrefix(content, "\ufeff")) {
		trimmed := strings.TrimSpace(line)
		switch indented := line[0] == ' ' || line[0] == '\t'; {
		case trimmed == "", strings.ContainsRune("#;", rune(trimmed[0])), nested && indented:
		case trimmed[0] == '[':
			name, _, _ := strings.Cut(trimmed[1:], "]")
			name = strings.Join(strings.Fields(strings.ReplaceAll(name, `"`, "")), " ")
			if all[name] == nil {
				all[name] = map[string]string{}
			}
			current, nested = all[name], false
		case current != nil:
			key, value, _ := strings.Cut(trimmed, "=")
			for _, comment := range []string{" #", " ;", "\t#", "\t;"} {
				value, _, _ = strings.Cut(value, comment)
			}
			value = strings.Trim(strings.TrimSpace(value), `"'`)
			current[strings.ToLower(strings.TrimSpace(key))], nested = value, value == ""
		}
	}
	return all
}

// profile gets the access key of a profile from the files. It does not run programs, so it ignores credential_process.
type profile struct {
	ctx  context.Context // decides which files settings may name
	name string          // "": AWS_PROFILE, or default
	read bool
}

const (
	keyID   = "aws_access_key_id"
	keyText = "aws_secret_access_key"
	token   = "aws_session_token"
)

// RetrieveWithCredContext implements credentials.Provider.
func (p *profile) RetrieveWithCredContext(*credentials.CredContext) (v credentials.Value, err error) {
	p.read = false
	name := cmp.Or(p.name, os.Getenv("AWS_PROFILE"), "default")
	files, err := sharedFiles()
	if err != nil {
		return v, err
	}
	var others []string
	for _, f := range files {
		section, err := f.read(p.ctx, name)
		if err != nil {
			return v, err
		}
		if (section[keyID] == "") != (section[keyText] == "") {
			return v, fmt.Errorf("profile %q in %s has only one of %s and %s: set both or neither", name, f.path, keyID,
				keyText)
		}
		if section[keyID] != "" {
			v = credentials.Value{AccessKeyID: section[keyID], SecretAccessKey: section[keyText],
				SessionToken: section[token], SignerType: credentials.SignatureV4}
		}
		for _, other := range []string{"credential_process", "sso_session", "sso_start_url", "source_profile"} {
			if section[other] != "" {
				others = append(others, other)
			}
		}
	}
	if v.AccessKeyID == "" && len(others) > 0 {
		return v,
			fmt.Errorf("profile %q has %s, which the agent does not support: set %s and %s in the profile, or use "+
				"another aws.identity", name, strings.Join(others, ", "), keyID, keyText)
	}
	p.read = v.AccessKeyID != ""
	return v, nil
}

// Retrieve implements credentials.Provider.
func (p *profile) Retrieve() (credentials.Value, error) { return p.RetrieveWithCredContext(nil) }

// IsExpired implements credentials.Provider.
func (p *profile) IsExpired() bool { return !p.read }
