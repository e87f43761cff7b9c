package prometheus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func (s *sourceSettings) checkScrape() error {
	if len(s.Targets) == 0 {
		return wrong("targets", "is required with mode scrape: set it to URLs such as http://127.0.0.1:9100/metrics")
	}
	check := func(target string) string {
		if _, err := httpclient.CheckURL(target); err != nil {
			return "must be a URL such as http://127.0.0.1:9100/metrics"
		}
		return ""
	}
	if err := common.CheckItems("targets", s.Targets, check, nil); err != nil {
		return err
	}
	if s.Timeout > s.Interval {
		return wrong("timeout", "must be at most interval")
	}
	if err := s.CheckHeaders(s.RequestHeader); err != nil {
		return err
	}
	_, err := s.TLS.Client()
	return err
}

// maxScrapes is the maximum number of targets that are scraped at the same time.
const maxScrapes = 8

// scraper is a source that scrapes targets. Read owns its fields, except latest.
type scraper struct {
	settings *sourceSettings
	numbers  common.Numbers
	client   *httpclient.Client
	log      *slog.Logger
	due      time.Time       // of the next scrapes
	waiting  []*url.URL      // targets that are due
	records  []record.Record // that are not read yet
	failing  map[string]bool // by target: whether its last scrape failed

	latest progress.Latest
}

func (s *scraper) open(ctx context.Context, _ record.Position) (err error) {
	s.log, s.failing, s.due = sdk.Logger(ctx), map[string]bool{}, time.Now()
	c := s.settings
	s.client, err = httpclient.New(&c.Auth, new(httpclient.HMAC), &c.TLS, c.RequestHeader, c.Timeout, c.MaxBody, true)
	return err
}

func (s *scraper) ack(int) {}

func (s *scraper) progress() progress.Report { return s.latest.Report() }

func (s *scraper) close(context.Context) error {
	if s.client != nil {
		s.client.Close()
	}
	return nil
}

// read waits until the next scrapes are due and returns their samples, in parts.
func (s *scraper) read(ctx context.Context) ([]record.Record, error) {
	for len(s.records) == 0 {
		if len(s.waiting) == 0 {
			if err := s.wait(ctx); err != nil {
				return nil, err
			}
		}
		n := min(maxScrapes, len(s.waiting))
		s.scrape(ctx, s.waiting[:n])
		if s.waiting = s.waiting[n:]; ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	n := min(maxRead, len(s.records))
	records := s.records[:n:n]
	if s.records = s.records[n:]; len(s.records) == 0 {
		s.records = nil
	}
	s.numbers.Set(records)
	return records, nil
}

// wait waits until the next scrapes are due. Those whose time has passed while the pipeline was slow are omitted.
func (s *scraper) wait(ctx context.Context) error {
	if err := common.Sleep(ctx, time.Until(s.due)); err != nil {
		return err
	}
	late := time.Since(s.due)
	if missed := int64(late / s.settings.Interval); missed > 0 {
		s.log.Warn("scrapes were omitted because the pipeline is slow", "scrapes", missed)
	}
	s.due = s.due.Add(late - late%s.settings.Interval + s.settings.Interval)
	for _, target := range s.settings.Targets {
		u, err := httpclient.CheckURL(target)
		if err != nil {
			return err
		}
		s.waiting = append(s.waiting, u)
	}
	return nil
}

// scrape scrapes targets at the same time, and adds their records.
func (s *scraper) scrape(ctx context.Context, targets []*url.URL) {
	results := make([][]record.Record, len(targets))
	errs := make([]error, len(targets))
	var all sync.WaitGroup
	for i, target := range targets {
		all.Go(func() { results[i], errs[i] = s.scrapeOne(ctx, target) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return
	}
	for i, target := range targets {
		s.records = append(s.records, results[i]...)
		s.report(target, errs[i])
	}
}

// report logs the first failure of a target and its end.
func (s *scraper) report(target *url.URL, err error) {
	name, key := instanceOf(target), target.String() // the path may have a secret
	switch {
	case err != nil:
		s.latest.Note(fmt.Sprintf("cannot scrape %s: %v", name, err))
		if !s.failing[key] {
			s.log.Warn("cannot scrape a target: its samples have a gap until it responds again", "target", name, "err", err)
		}
	case s.failing[key]:
		s.log.Info("the target responds again", "target", name)
	}
	s.failing[key] = err != nil
	if !slices.Contains(slices.Collect(maps.Values(s.failing)), true) {
		s.latest.Note("")
	}
}

// scrapeOne returns the samples of a target, and the sample up, which is 0 after an error.
func (s *scraper) scrapeOne(ctx context.Context, target *url.URL) ([]record.Record, error) {
	at := time.Now()
	own := map[string]string{"job": s.settings.Job, "instance": instanceOf(target)}
	families, err := s.fetch(ctx, target)
	var records []record.Record
	if err == nil {
		records, err = recordsOf(families, own, at)
	}
	up := 1.0
	if err != nil {
		records, up = nil, 0
	}
	payload := map[string]any{memberName: "up", memberValue: up, memberType: "gauge",
		memberLabels: map[string]any{"job": own["job"], "instance": own["instance"]}}
	return append(records, newRecord(payload, at.UnixMilli())), err
}

// instanceOf returns the host and the port of a target.
func instanceOf(target *url.URL) string {
	if target.Port() != "" {
		return target.Host
	}
	if target.Scheme == "https" {
		return target.Host + ":443"
	}
	return target.Host + ":80"
}

// fetch returns the metrics of a target.
func (s *scraper) fetch(ctx context.Context, target *url.URL) (map[string]*dto.MetricFamily, error) {
	header := http.Header{"Accept": {"text/plain;version=1.0.0;escaping=allow-utf-8,text/plain;version=0.0.4;q=0.5"}}
	header.Set("X-Prometheus-Scrape-Timeout-Seconds", fmt.Sprint(s.settings.Timeout.Seconds()))
	r, err := s.client.Do(ctx, http.MethodGet, target.String(), nil, header)
	switch {
	case errors.Is(err, httpclient.ErrTooLarge):
		return nil, fmt.Errorf("%w: raise limit.bodyBytes", err)
	case err != nil:
		return nil, err
	case r.Status != http.StatusOK:
		return nil, s.client.ResponseError(r)
	}
	switch t := r.Header.Get("Content-Type"); {
	case strings.HasPrefix(t, "text/html"), bytes.HasPrefix(bytes.TrimSpace(r.Body), []byte("<")):
		return nil, errors.New("it is a page: check targets")
	case strings.HasPrefix(t, "application/openmetrics-text"), strings.Contains(t, "protobuf"):
		return nil, fmt.Errorf("the content type of the response is %.64q instead of text/plain", t)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("cannot parse the response: %w", err)
	}
	return families, nil
}

// recordsOf returns the samples of metrics. A label with a name in own gets the prefix exported_, as in Prometheus.
func recordsOf(
	families map[string]*dto.MetricFamily, own map[string]string, at time.Time,
) (all []record.Record, err error) {
	options := &expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(at.UnixNano())}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		family := families[name]
		for _, m := range family.GetMetric() {
			if _, ok := nanoseconds(m.GetTimestampMs()); !ok {
				return nil, fmt.Errorf("the time %d ms of a sample of %.64q is out of range", m.GetTimestampMs(), name)
			}
		}
		samples, err := expfmt.ExtractSamples(options, family)
		if err != nil {
			return nil, fmt.Errorf("cannot read the samples of %.64q: %w", name, err)
		}
		kind := strings.ToLower(family.GetType().String())
		for _, sample := range samples {
			p := map[string]any{memberValue: valueOf(math.Float64bits(float64(sample.Value))),
				memberLabels: labelsOf(sample.Metric, own), memberName: string(sample.Metric[model.MetricNameLabel])}
			if kind != "untyped" {
				p[memberType] = kind
			}
			if family.GetHelp() != "" {
				p[memberHelp] = family.GetHelp()
			}
			all = append(all, newRecord(p, int64(sample.Timestamp)))
		}
	}
	return all, nil
}

// labelsOf returns the labels of a sample and of the target.
func labelsOf(metric model.Metric, own map[string]string) map[string]any {
	labels := map[string]any{}
	for name, value := range own {
		labels[name] = value
	}
	for name, value := range metric {
		if name == model.MetricNameLabel || value == "" {
			continue
		}
		to := string(name)
		for own[to] != "" || metric[model.LabelName(to)] != "" && to != string(name) {
			to = "exported_" + to
		}
		labels[to] = string(value)
	}
	return labels
}

// newRecord returns a record of a sample with a time in milliseconds.
func newRecord(payload map[string]any, ms int64) record.Record {
	at, _ := nanoseconds(ms)
	return record.Record{Operation: record.OperationCreate, After: record.Structured(payload),
		Metadata: record.NewMetadata(map[string]string{keyKind: kindSample, record.KeyCreatedAt: fmt.Sprint(at)})}
}
