package builtin_test

import (
	"maps"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// conduitSetting is a setting of a built-in connector of Conduit.
type conduitSetting struct {
	name     string
	kind     sdk.ParameterType
	def      string
	takes    string // a valid value
	refuses  string // a value that Conduit refuses too; empty: it accepts any of the type
	required bool
}

// kafkaClient are the settings of both sides of kafka.
var kafkaClient = []conduitSetting{
	{"servers", sdk.TypeString, "", "localhost:1,localhost:2", "", true},
	{"clientID", sdk.TypeString, "conduit-connector-kafka", "me", "", false},
	{"tls.enabled", sdk.TypeBool, "false", "true", "perhaps", false},
	{"caCert", sdk.TypeString, "", "", "", false},
	{"clientCert", sdk.TypeString, "", "", "", false},
	{"clientKey", sdk.TypeString, "", "", "", false},
	{"insecureSkipVerify", sdk.TypeBool, "false", "true", "perhaps", false},
	{"saslMechanism", sdk.TypeString, "", "SCRAM-SHA-512", "NTLM", false},
	{"saslUsername", sdk.TypeString, "", "me", "", false},
	{"saslPassword", sdk.TypeString, "", "secret", "", false},
}

// bucketOfConduit are the settings of both sides of s3. Keys are optional here, since there are other identities.
var bucketOfConduit = []conduitSetting{
	{"aws.accessKeyId", sdk.TypeString, "", "id", "", false},
	{"aws.secretAccessKey", sdk.TypeString, "", "secret", "", false},
	{"aws.region", sdk.TypeString, "", "eu-central-1", "", true},
	{"aws.bucket", sdk.TypeString, "", "events", "", true},
	{"prefix", sdk.TypeString, "", "a/b", "", false},
}

const byCollection = `{{ index .Metadata "opencdc.collection" }}`

// ofConduit are the settings of Conduit's connectors, by name and side.
var ofConduit = map[string][]conduitSetting{
	"kafka source": append(kafkaClient[:len(kafkaClient):len(kafkaClient)],
		conduitSetting{"topics", sdk.TypeString, "", "a,b", "", true},
		conduitSetting{"groupID", sdk.TypeString, "", "g", "", false},
		conduitSetting{"readFromBeginning", sdk.TypeBool, "false", "true", "perhaps", false},
		conduitSetting{"retryGroupJoinErrors", sdk.TypeBool, "true", "false", "perhaps", false},
		conduitSetting{"commitOffsetsSize", sdk.TypeInt, "1000", "0", "-1", false},
		conduitSetting{"commitOffsetsDelay", sdk.TypeDuration, "5s", "1m", "later", false}),
	"kafka destination": append(kafkaClient[:len(kafkaClient):len(kafkaClient)],
		conduitSetting{"topic", sdk.TypeString, byCollection, "orders", "", false},
		conduitSetting{"acks", sdk.TypeString, "all", "one", "two", false},
		conduitSetting{"compression", sdk.TypeString, "snappy", "lz4", "bzip2", false},
		conduitSetting{"batchBytes", sdk.TypeInt, "1000012", "1000", "many", false},
		conduitSetting{"deliveryTimeout", sdk.TypeDuration, "0", "1m", "later", false}),
	"postgres source": {
		{"url", sdk.TypeString, "", "host=localhost user=u dbname=d", "", true},
		{"tables", sdk.TypeString, "*", "a,b", "", false},
		{"snapshotMode", sdk.TypeString, "initial", "never", "always", false},
		{"snapshot.fetchSize", sdk.TypeInt, "50000", "7", "0", false},
		{"cdcMode", sdk.TypeString, "auto", "logrepl", "trigger", false},
		{"logrepl.publicationName", sdk.TypeString, "conduitpub", "p", "", false},
		{"logrepl.slotName", sdk.TypeString, "conduitslot", "s_1", "S", false},
		{"logrepl.autoCleanup", sdk.TypeBool, "true", "false", "perhaps", false},
		{"logrepl.withAvroSchema", sdk.TypeBool, "true", "false", "perhaps", false},
	},
	"postgres destination": {
		{"url", sdk.TypeString, "", "postgres://u@localhost/d", "", true},
		{"table", sdk.TypeString, byCollection, "t", "", false},
	},
	"s3 source": append(bucketOfConduit[:len(bucketOfConduit):len(bucketOfConduit)],
		conduitSetting{"pollingPeriod", sdk.TypeDuration, "1s", "5m", "later", false}),
	"s3 destination": append(bucketOfConduit[:len(bucketOfConduit):len(bucketOfConduit)],
		conduitSetting{"format", sdk.TypeString, "", "parquet", "csv", true}),
}

// TestSettingsOfConduit checks that connectors that Conduit also has accept Conduit's settings, with its defaults and
// rules.
func TestSettingsOfConduit(t *testing.T) {
	sides := map[string]sdk.Parameters{}
	for _, c := range builtin.All() {
		if c.NewSource != nil {
			sides[c.Name+" source"] = c.NewSource().Parameters()
		}
		if c.NewDestination != nil {
			sides[c.Name+" destination"] = c.NewDestination().Parameters()
		}
	}
	for side, all := range ofConduit {
		t.Run(side, func(t *testing.T) { takes(t, sides[side], all) })
	}
}

func takes(t *testing.T, have sdk.Parameters, all []conduitSetting) {
	every, required := map[string]string{}, map[string]string{}
	for _, s := range all {
		p, ok := have[s.name]
		if !ok || p.Default != s.def || p.Type != s.kind {
			t.Errorf("%s is %+v, want a setting of type %d with the default %q", s.name, p, s.kind, s.def)
		}
		every[s.name] = s.takes
		if s.required {
			required[s.name] = s.takes
		}
	}
	for _, good := range []map[string]string{every, required} {
		if wrong := have.Check(have.ApplyDefaults(good)); len(wrong) > 0 {
			t.Errorf("%v is refused: %v", good, wrong)
		}
	}
	for _, s := range all {
		set := maps.Clone(every)
		set[s.name] = ""
		if wrong := have.Check(have.ApplyDefaults(set)); (len(wrong) > 0) != s.required {
			t.Errorf("%s = \"\": %v", s.name, wrong)
		}
		if set[s.name] = s.refuses; s.refuses != "" && len(have.Check(have.ApplyDefaults(set))) == 0 {
			t.Errorf("%s = %q is taken", s.name, s.refuses)
		}
	}
}
