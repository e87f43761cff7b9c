package protocol

import (
	"encoding/base32"
	"strconv"
)

// encoding turns any id into one token of a key: stores forbid most characters in keys and treat dots as separators.
var encoding = base32.HexEncoding.WithPadding(base32.NoPadding)

// SessionKey returns the key of an agent's session.
func SessionKey(agent string) string { return SessionPrefix + encoding.EncodeToString([]byte(agent)) }

// ClaimKey returns the key of a pipeline's claim.
func ClaimKey(pipeline string) string {
	return ClaimPrefix + encoding.EncodeToString([]byte(pipeline))
}

// OverrideKey returns the key of the override of a pipeline.
func OverrideKey(pipeline string) string {
	return OverridePrefix + encoding.EncodeToString([]byte(pipeline))
}

// DeclaredKey returns the key of a pipeline that the API declared for all members.
func DeclaredKey(pipeline string) string {
	return DeclaredPrefix + encoding.EncodeToString([]byte(pipeline))
}

// VersionsKey returns the key of the version record of a pipeline or an instance. id is the claim id.
func VersionsKey(id string) string { return VersionsPrefix + encoding.EncodeToString([]byte(id)) }

// DeadLettersKey returns the key of the dead letters of a pipeline or an instance. id is the claim id.
func DeadLettersKey(id string) string { return DeadLettersPrefix + encoding.EncodeToString([]byte(id)) }

// SegmentKey returns the key of a segment of dead letters.
func SegmentKey(id string, number int) string { return DeadLettersKey(id) + "." + strconv.Itoa(number) }

// ReportKey returns the key of an agent's report.
func ReportKey(agent string) string { return ReportPrefix + encoding.EncodeToString([]byte(agent)) }

// pipelineOfKey returns the pipeline id in the key of a claim.
func pipelineOfKey(key string) string {
	id, err := encoding.DecodeString(key[min(len(key), len(ClaimPrefix)):])
	if err != nil {
		return ""
	}
	return string(id)
}
