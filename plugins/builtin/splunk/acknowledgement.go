package splunk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
)

// Pauses between questions for an acknowledgement.
const (
	minPause = 100 * time.Millisecond
	maxPause = 2 * time.Second
)

// acknowledgement asks the collector whether the indexers have written the events of a request.
type acknowledgement struct {
	client  *httpclient.Client
	url     string
	timeout time.Duration
}

// wait returns when the events of the response are written. The error says why that is unknown.
func (a *acknowledgement) wait(ctx context.Context, r *httpclient.Response) error {
	accepted, err := parse(r)
	if err != nil {
		return err
	}
	if accepted.AckID == nil {
		return errors.New("the response has no ackId: the token has no indexer acknowledgement; enable it in Splunk, or " +
			"set acknowledge to false")
	}
	id := strconv.FormatInt(*accepted.AckID, 10)
	question := []byte(`{"acks":[` + id + `]}`)
	header := http.Header{"Content-Type": {"application/json"}}
	var last error
	pause := minPause
	for begin := time.Now(); ; pause = min(2*pause, maxPause) {
		written, err := a.ask(ctx, id, question, header)
		switch {
		case written:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			last = err
		}
		if time.Since(begin)+pause > a.timeout {
			err := fmt.Errorf("the indexers have not acknowledged the events within %v", a.timeout)
			if last != nil {
				err = fmt.Errorf("%w: %w", err, last)
			}
			return err
		}
		if err := common.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func (a *acknowledgement) ask(ctx context.Context, id string, question []byte, header http.Header) (bool, error) {
	r, err := a.client.Do(ctx, http.MethodPost, a.url, question, header)
	if err != nil {
		return false, err
	}
	if r.Status/100 != 2 {
		return false, a.client.ResponseError(r)
	}
	var answer struct{ Acks map[string]bool }
	if err := json.Unmarshal(r.Body, &answer); err != nil {
		return false, errors.New("cannot understand the response to the question for acknowledgements")
	}
	return answer.Acks[id], nil
}
