//go:build wasip1

// Command contract is a processor written directly against the contract, with the generated messages, like a processor
// made with another SDK. The setting "mode" selects its behavior.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/processor/wasm/wasmpb"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/commonv1"
)

//go:wasmimport conduit command_request
func commandRequest(at unsafe.Pointer, space uint32) uint32

//go:wasmimport conduit command_response
func commandResponse(at unsafe.Pointer, size uint32) uint32

//go:wasmimport conduit create_schema
func createSchema(at unsafe.Pointer, space uint32) uint32

//go:wasmimport conduit get_schema
func getSchema(at unsafe.Pointer, space uint32) uint32

//go:wasmimport conduit http_request
func httpRequest(at unsafe.Pointer, space uint32) uint32

var (
	buffer = make([]byte, 1024)
	mode   string
	calls  int
	kept   [][]byte
	seen   = map[string]bool{}
)

func main() {
	if os.Getenv("CONDUIT_MAGIC_COOKIE") != "3stnegqd0x02axggy0vrc4izjeq2zik6g7somyb3ye4vy5iivvjm5s1edppl5oja" {
		os.Exit(1)
	}
	for {
		n := commandRequest(unsafe.Pointer(&buffer[0]), uint32(len(buffer)))
		if n == 4294967294 {
			os.Exit(0)
		}
		if n >= 4294967195 {
			os.Exit(3)
		}
		if int(n) > len(buffer) {
			buffer = make([]byte, n)
			continue
		}
		request := &wasmpb.CommandRequest{}
		if err := proto.Unmarshal(buffer[:n], request); err != nil {
			os.Exit(4)
		}
		answer, err := proto.Marshal(execute(request))
		if err != nil {
			os.Exit(5)
		}
		if commandResponse(unsafe.Pointer(unsafe.SliceData(answer)), uint32(len(answer))) != 0 {
			os.Exit(6)
		}
	}
}

func execute(request *wasmpb.CommandRequest) *wasmpb.CommandResponse {
	switch r := request.Request.(type) {
	case *wasmpb.CommandRequest_Specify:
		return &wasmpb.CommandResponse{Response: &wasmpb.CommandResponse_Specify{Specify: specification()}}
	case *wasmpb.CommandRequest_Configure:
		mode = r.Configure.Parameters["mode"]
		if mode == "badconfig" {
			return failure("config invalid: mode")
		}
		return &wasmpb.CommandResponse{
			Response: &wasmpb.CommandResponse_Configure{Configure: &wasmpb.Configure_Response{}}}
	case *wasmpb.CommandRequest_Open:
		fmt.Println(`{"level":"info","message":"opened","time":"x","mode":"` + mode + `"}`)
		fmt.Fprintln(os.Stderr, "plain text")
		return &wasmpb.CommandResponse{
			Response: &wasmpb.CommandResponse_Open{Open: &wasmpb.Open_Response{}}}
	case *wasmpb.CommandRequest_Process:
		return process(r.Process.Records)
	}
	return &wasmpb.CommandResponse{
		Response: &wasmpb.CommandResponse_Teardown{Teardown: &wasmpb.Teardown_Response{}}}
}

func specification() *wasmpb.Specify_Response {
	return &wasmpb.Specify_Response{Name: "contract", Summary: "A test.", Description: "It does what mode says.",
		Version: "v1.2.3", Author: "test",
		Parameters: map[string]*commonv1.Parameter{
			"mode": {Default: "prefix", Description: "What to do.", Type: commonv1.Parameter_TYPE_STRING,
				Validations: []*commonv1.Validation{{Type: commonv1.Validation_TYPE_REQUIRED}}},
			"sdk.schema.decode.payload.enabled": {Default: "true", Type: commonv1.Parameter_TYPE_BOOL},
		}}
}

func failure(message string) *wasmpb.CommandResponse {
	return &wasmpb.CommandResponse{Response: &wasmpb.CommandResponse_Error{Error: &wasmpb.Error{Code: 1,
		Message: message}}}
}

// dedupe drops records it has already seen. It answers some calls with an error after it has seen their records.
func dedupe(records []*commonv1.Record) *wasmpb.CommandResponse {
	out := &wasmpb.Process_Response{}
	for _, r := range records {
		key, err := proto.MarshalOptions{Deterministic: true}.Marshal(r.GetPayload().GetAfter())
		if err != nil {
			return failure(err.Error())
		}
		one := single(r)
		if seen[string(key)] {
			one = &wasmpb.ProcessedRecord{
				Record: &wasmpb.ProcessedRecord_FilterRecord{FilterRecord: &wasmpb.FilterRecord{}}}
		}
		seen[string(key)] = true
		out.Records = append(out.Records, one)
	}
	if calls%3 == 2 && len(records) > 1 {
		return failure("cannot do these together")
	}
	return &wasmpb.CommandResponse{Response: &wasmpb.CommandResponse_Process{Process: out}}
}

func process(records []*commonv1.Record) *wasmpb.CommandResponse {
	calls++
	if mode == "dedupe" {
		return dedupe(records)
	}
	out := &wasmpb.Process_Response{}
	for i, r := range records {
		text := string(r.GetPayload().GetAfter().GetRawData())
		switch {
		case text == "die":
			panic("the guest cannot bear this record")
		case text == "exit":
			os.Exit(7)
		case text == "loop":
			for {
			}
		case text == "sleep":
			time.Sleep(time.Hour)
		case text == "fail":
			return failure("cannot do any of these")
		case mode == "short" && i == 2:
			return &wasmpb.CommandResponse{Response: &wasmpb.CommandResponse_Process{Process: out}}
		case mode == "many":
			out.Records = append(out.Records, single(r), single(r))
			continue
		case mode == "none":
			continue
		}
		out.Records = append(out.Records, processOne(r, text))
	}
	return &wasmpb.CommandResponse{Response: &wasmpb.CommandResponse_Process{Process: out}}
}

func single(r *commonv1.Record) *wasmpb.ProcessedRecord {
	return &wasmpb.ProcessedRecord{Record: &wasmpb.ProcessedRecord_SingleRecord{SingleRecord: r}}
}

func processOne(r *commonv1.Record, text string) *wasmpb.ProcessedRecord {
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	switch {
	case text == "filter":
		return &wasmpb.ProcessedRecord{
			Record: &wasmpb.ProcessedRecord_FilterRecord{FilterRecord: &wasmpb.FilterRecord{}}}
	case text == "error":
		return &wasmpb.ProcessedRecord{
			Record: &wasmpb.ProcessedRecord_ErrorRecord{ErrorRecord: &wasmpb.ErrorRecord{
				Error: &wasmpb.Error{Code: 5, Message: "a bad record"}}}}
	case text == "unset":
		return &wasmpb.ProcessedRecord{}
	case strings.HasPrefix(text, "split "):
		multi := &wasmpb.MultiRecord{}
		for _, word := range strings.Fields(text)[1:] {
			multi.Records = append(multi.Records, raw(word))
		}
		return &wasmpb.ProcessedRecord{Record: &wasmpb.ProcessedRecord_MultiRecord{MultiRecord: multi}}
	case strings.HasPrefix(text, "grow "):
		n, _ := strconv.Atoi(strings.TrimPrefix(text, "grow "))
		for range n {
			kept = append(kept, make([]byte, 1<<20))
		}
		for i := range kept {
			kept[i][i%len(kept[i])] = 1
		}
	case strings.HasPrefix(text, "metadata "):
		for i := range number(text) {
			r.Metadata[strconv.Itoa(i)] = ""
		}
	case strings.HasPrefix(text, "pieces "):
		pieces := make([]*commonv1.Record, number(text))
		for i := range pieces {
			pieces[i] = &commonv1.Record{}
		}
		return &wasmpb.ProcessedRecord{Record: &wasmpb.ProcessedRecord_MultiRecord{
			MultiRecord: &wasmpb.MultiRecord{Records: pieces}}}
	case strings.HasPrefix(text, "long "):
		text = strings.Repeat("x", number(text))
	case strings.HasPrefix(text, "refuse "):
		return &wasmpb.ProcessedRecord{Record: &wasmpb.ProcessedRecord_ErrorRecord{
			ErrorRecord: &wasmpb.ErrorRecord{
				Error: &wasmpb.Error{Code: 5, Message: strings.Repeat("x", number(text))}}}}
	case strings.HasPrefix(text, "print "):
		for range number(text) {
			fmt.Println(strings.Repeat("x", 60_000))
		}
	case strings.HasPrefix(text, "schemas "):
		created := &wasmpb.CreateSchemaResponse{}
		for i := range number(text) {
			r.Metadata["schemas"] = strconv.Itoa(
				int(call(createSchema, &wasmpb.CreateSchemaRequest{Subject: strconv.Itoa(i),
					Type:  commonv1.Schema_TYPE_AVRO,
					Bytes: []byte(`{"type":"map","values":"long"}`)}, created)))
		}
	case text == "random":
		b := make([]byte, 16)
		_, _ = rand.Read(b)
		r.Metadata["random"] = hex.EncodeToString(b)
	case text == "environment":
		r.Metadata["id"], r.Metadata["level"] = os.Getenv("CONDUIT_PROCESSOR_ID"), os.Getenv("CONDUIT_LOG_LEVEL")
		r.Metadata["environment"] = strings.Join(os.Environ()[3:], " ")
		_, err := os.ReadFile("/etc/passwd")
		r.Metadata["file"] = fmt.Sprint(err)
		r.Metadata["args"] = strconv.Itoa(len(os.Args))
		r.Metadata["year"] = strconv.Itoa(time.Now().Year())
	case strings.HasPrefix(text, "http"):
		r.Metadata["http"] = get(text)
	case text == "schema":
		r.Metadata["schema"] = schemas()
	}
	r.Metadata["calls"] = strconv.Itoa(calls)
	if r.GetPayload().GetAfter().GetStructuredData() == nil {
		r.Payload.After = raw("hello, " + text).Payload.After
	}
	return single(r)
}

// number returns the number after the first word.
func number(text string) int {
	_, digits, _ := strings.Cut(text, " ")
	n, _ := strconv.Atoi(digits)
	return n
}

func raw(text string) *commonv1.Record {
	return &commonv1.Record{Payload: &commonv1.Change{
		After: &commonv1.Data{Data: &commonv1.Data_RawData{RawData: []byte(text)}}}}
}

// call calls a function of the host according to the contract: it calls again with more space if the answer is longer
// than the request.
func call(f func(unsafe.Pointer, uint32) uint32, request proto.Message, answer proto.Message) uint32 {
	b, _ := proto.Marshal(request)
	n := f(unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b)))
	if n < 4294967195 && int(n) > len(b) {
		b = append(b, make([]byte, int(n)-len(b))...)
		n = f(unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b)))
	}
	if n >= 4294967195 {
		return n
	}
	if err := proto.Unmarshal(b[:n], answer); err != nil {
		return 1
	}
	return 0
}

func get(text string) string {
	words := strings.Fields(text)
	request := &wasmpb.HTTPRequest{Method: "GET", Url: words[0]}
	for _, w := range words[1:] {
		if name, value, ok := strings.Cut(w, ":"); ok {
			request.Headers = append(request.Headers, &wasmpb.HTTPHeader{Key: name, Values: []string{value}})
		} else {
			request.AuthSecretRef = w
		}
	}
	answer := &wasmpb.HTTPResponse{}
	if code := call(httpRequest, request, answer); code != 0 {
		return fmt.Sprintf("code %d", code)
	}
	return fmt.Sprintf("%d %s", answer.StatusCode, answer.Body)
}

func schemas() string {
	created := &wasmpb.CreateSchemaResponse{}
	code := call(createSchema, &wasmpb.CreateSchemaRequest{Subject: "s", Type: commonv1.Schema_TYPE_AVRO,
		Bytes: []byte(`{"type":"record","name":"r","fields":[{"name":"a","type":"long"}]}`)}, created)
	if code != 0 {
		return fmt.Sprintf("create: %d", code)
	}
	got := &wasmpb.GetSchemaResponse{}
	if code := call(getSchema, &wasmpb.GetSchemaRequest{Subject: "s", Version: created.Schema.Version},
		got); code != 0 {
		return fmt.Sprintf("get: %d", code)
	}
	missing := call(getSchema, &wasmpb.GetSchemaRequest{Subject: "other", Version: 1}, got)
	return fmt.Sprintf("%s %d %s %d", got.Schema.Subject, got.Schema.Version, got.Schema.Bytes, missing)
}
