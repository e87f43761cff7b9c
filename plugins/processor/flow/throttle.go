package flow

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// throttle slows records down to a rate with a token bucket.
type throttle struct {
	sdk.ProcessorBase
	limit   *rate.Limiter
	drop    bool
	waiting []waiting // in order
	next    time.Time // when the first waiting record may pass
	at      time.Time // time of the last call
}

type waiting struct {
	held   sdk.Held
	record record.Record
}

type throttleSettings struct {
	// Records per interval.
	Rate int `json:"rate" validate:"required,gt=0"`
	// The interval.
	Interval time.Duration `json:"interval" default:"1s" validate:"gt=0"`
	// Maximum burst of records. 0: same as rate.
	Burst int `json:"burst" default:"0" validate:"gt=-1"`
	// Action for records above the rate: delay or drop.
	Exceed string `json:"exceed" default:"delay" validate:"inclusion=delay|drop"`
}

// Parameters implements sdk.Processor.
func (p *throttle) Parameters() sdk.Parameters {
	return sdk.Described(throttleSettings{}, descriptions)
}

// Configure implements sdk.Processor.
func (p *throttle) Configure(_ context.Context, settings map[string]string) error {
	var s throttleSettings
	if err := sdk.Decode(settings, &s); err != nil {
		return err
	}
	burst := s.Burst
	if burst == 0 {
		burst = s.Rate
	}
	p.limit = rate.NewLimiter(rate.Limit(float64(s.Rate)/s.Interval.Seconds()), burst)
	p.drop = s.Exceed == "drop"
	return nil
}

// SchemaParts implements sdk.SchemaUser.
func (p *throttle) SchemaParts() schema.Parts { return schema.Parts{} }

// CanSucceed implements sdk.Successor.
func (p *throttle) CanSucceed(sdk.Processor) bool { return true }

// Succeed implements sdk.Successor. The bucket keeps its tokens, and the waiting records pass at the rate of p.
func (p *throttle) Succeed(former sdk.Processor) {
	f := former.(*throttle)
	f.limit.SetLimitAt(f.at, p.limit.Limit())
	f.limit.SetBurstAt(f.at, p.limit.Burst())
	p.limit, p.waiting, p.at = f.limit, f.waiting, f.at
	p.plan(p.at)
}

// Deadline implements sdk.TimedProcessor.
func (p *throttle) Deadline() time.Time { return p.next }

// Process implements sdk.Processor. Emitted records follow the records of the batch. To keep the order, a record that
// arrives while others wait is emitted too, even if it may pass at once.
func (p *throttle) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	now := sdk.Now(ctx)
	p.at = now
	inOrder := len(p.waiting) == 0
	p.release(b, now)
	for i := range b.Records(ctx) {
		allowed := len(p.waiting) == 0 && p.limit.AllowN(now, 1)
		switch {
		case allowed && inOrder:
		case !allowed && p.drop:
			b.Filter(i)
		default:
			r := b.Record(i).Clone()
			w := waiting{b.Hold(i), r}
			if allowed {
				emit(b, w)
			} else {
				p.waiting = append(p.waiting, w)
			}
		}
	}
	p.plan(now)
	return ctx.Err()
}

func emit(b *sdk.ProcessBatch, w waiting) {
	b.Emit(sdk.Emission{Records: []record.Record{w.record}, Settles: []sdk.Held{w.held}})
}

func (p *throttle) release(b *sdk.ProcessBatch, now time.Time) {
	n := 0
	for n < len(p.waiting) && p.limit.AllowN(now, 1) {
		emit(b, p.waiting[n])
		n++
	}
	clear(p.waiting[:n])
	if p.waiting = p.waiting[n:]; len(p.waiting) == 0 {
		p.waiting = nil
	}
}

// shortest is the shortest pause between two releases of records: at high rates several records pass together.
const shortest = 5 * time.Millisecond

func (p *throttle) plan(now time.Time) {
	p.next = time.Time{}
	if len(p.waiting) == 0 {
		return
	}
	missing := 1 - p.limit.TokensAt(now)
	pause := time.Duration(missing / float64(p.limit.Limit()) * float64(time.Second))
	p.next = now.Add(max(shortest, pause))
}
