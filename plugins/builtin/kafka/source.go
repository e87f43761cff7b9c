package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/notify"
	"github.com/conduit-agent/conduit/spec/texts"
)

type sourceSettings struct {
	clientSettings
	// Topics to read, by their exact names.
	Topics []string `json:"topics" literal:"true" validate:"required"`
	// Consumer group. Empty: a group of this source, whose generated name is stored in the position.
	GroupID string `json:"groupID" literal:"true"`
	// Starting point in a partition without an offset in the position or the group: its oldest message, or new
	// messages.
	ReadFromBeginning bool `json:"readFromBeginning" default:"false"`
	// Whether joining the group is retried after an error. Otherwise the pipeline fails.
	RetryGroupJoinErrors bool `json:"retryGroupJoinErrors" default:"true"`
	// Number of acknowledged messages after which offsets are committed to the group.
	CommitOffsetsSize int `json:"commitOffsetsSize" default:"1000" validate:"gt=-1"`
	// Maximum time after which acknowledged offsets are committed to the group.
	CommitOffsetsDelay time.Duration `json:"commitOffsetsDelay" default:"5s" validate:"gt=-1"`

	// Time without heartbeats after which the group assigns the partitions of a member to other members, for example
	// after a crash. Brokers allow 6s to 30m by default.
	SessionTimeout time.Duration `json:"sessionTimeout" default:"10s" validate:"gt=0"`

	// Action when messages were removed before they were read. fail: stop with an error that names them. continue: log
	// a warning and read from the oldest message.
	Gap string `json:"gap" default:"fail" validate:"inclusion=fail|continue"`
	// Whether messages without a value become delete records instead of create records without a payload.
	Tombstones bool `json:"tombstones" default:"false"`
	// Whether the group named by groupID is removed when the pipeline is deleted.
	AutoCleanup bool `json:"autoCleanup" default:"false"`
}

func (s *sourceSettings) parse(values map[string]string) ([]kgo.Opt, error) {
	*s = sourceSettings{}
	if err := sdk.Decode(values, s); err != nil {
		return nil, err
	}
	if err := common.CheckItems("topics", s.Topics, wrongTopic, nil); err != nil {
		return nil, err
	}
	return s.options()
}

var topicName = texts.Regexp(`^[A-Za-z0-9._-]{1,249}$`)

// wrongTopic explains why no topic can have the name, or returns "".
func wrongTopic(topic string) string {
	if topicName().MatchString(topic) {
		return ""
	}
	return "is not a topic name: names consist of up to 249 letters, digits, dots, _ and -; patterns are not supported"
}

// Source consumes topics.
type Source struct {
	sdk.SourceBase

	settings sourceSettings
	options  []kgo.Opt
	group    string
	network  *network
	client   *kgo.Client
	log      *slog.Logger

	broken context.Context // ends, with a cause, when the source cannot continue
	fail   context.CancelCauseFunc
	work   sync.WaitGroup // committer and lag
	stop   context.CancelFunc
	root   context.Context // of the client
	end    context.CancelFunc
	kick   notify.Signal // the committer has work
	buffer sdk.Buffer    // from the host, for the client's fetches; nil before Open

	fetched  []fetched                   // owned by Read, which has not returned it yet
	maxBytes int                         // memory limit of a batch in bytes
	bound    *Bound                      // on the memory of messages decoded by the client
	failures []kgo.FetchError            // owned by Read: they follow fetched
	attempts map[topicPartition]attempts // owned by Read
	skips    progress.Skips              // has its own lock

	state
}

// Parameters describes the settings.
func (s *Source) Parameters() sdk.Parameters { return sdk.Described(sourceSettings{}, descriptions) }

// Configure checks and keeps the settings.
func (s *Source) Configure(_ context.Context, values map[string]string) (err error) {
	s.options, err = s.settings.parse(values)
	return err
}

// Open joins the group. It returns when a broker has answered and the topics are known.
func (s *Source) Open(ctx context.Context, pos record.Position) error {
	s.log = sdk.Logger(ctx)
	if err := s.resume(pos); err != nil {
		return err
	}
	s.network = &network{log: sdk.Logger(ctx)}
	s.broken, s.fail = context.WithCancelCause(context.Background())
	s.root, s.end = context.WithCancel(context.Background())
	s.kick = notify.NewSignal()
	fetch := s.fetchBytes(ctx)
	s.maxBytes = batchBytes(ctx)
	limiter := newFetchLimiter(fetch, min(fetch, partitionBytes))
	bounded, bound, err := s.settings.bounded(s.maxBytes)
	if err != nil {
		return err
	}
	s.bound = bound
	client, err := kgo.NewClient(slices.Concat(s.options, s.consumer(fetch, limiter), bounded)...)
	if err != nil {
		return fmt.Errorf("cannot open topics %v: %w", s.settings.Topics, err)
	}
	limiter.Limit(client.UpdateFetchMaxBytes)
	s.client = client
	if err := reach(ctx, client, s.settings.Servers, s.network); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	client.AddConsumeTopics(s.settings.Topics...)
	background, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.begins(func() { s.commitLoop(background) })
	s.begins(func() { s.followEnds(background, client, s.settings.Topics) })
	return nil
}

// begins runs work in the background. A panic in it fails the source.
func (s *Source) begins(work func()) {
	s.work.Go(func() {
		if err := sdk.Contain(func() error { work(); return nil }); err != nil {
			s.fail(err)
		}
	})
}

// resume restores the offsets and the name of the group from a position.
func (s *Source) resume(pos record.Position) error {
	s.group = s.settings.GroupID
	s.state.init()
	if len(pos) == 0 {
		if s.group == "" {
			s.group = uuid.NewString()
		}
		return nil
	}
	p, err := parsePosition(pos)
	if err != nil {
		return err
	}
	if s.group == "" {
		s.group = p.GroupID
	}
	if p.GroupID != s.group {
		return sdk.Permanent(fmt.Errorf("the old position contains a different consumer group ID than the connector "+
			"configuration (%q vs %q): set groupID back; %s", p.GroupID, s.group, sdk.StartOver))
	}
	s.state.next, s.state.resumed, s.state.whole = p.vector(), true, p.Next != nil
	if p.IDs != nil {
		s.state.ids = p.IDs
	}
	return nil
}

// Limits of the client's buffers, and of the messages that it returned and Read has not.
const (
	fetchBytes     = 4 << 20
	partitionBytes = 1 << 20
	minBytes       = 64 << 10 // of a fetch
	share          = 4        // the source uses 1/share of the free memory
	concurrent     = 2        // fetches, from different brokers
	kept           = 2 * concurrent
	pollRecords    = 2000 // maximum per batch
	fetchWait      = time.Second
)

// fetchBytes returns the maximum number of bytes of a fetch, and reserves memory for the buffered fetches. The maximum
// is smaller if the host is short of memory.
func (s *Source) fetchBytes(ctx context.Context) int32 {
	s.buffer = sdk.NewBuffer(ctx)
	n := min(max(s.buffer.Room()/share/kept, minBytes), fetchBytes)
	s.buffer.Add(kept * n)
	return int32(n)
}

// batchBytes returns the memory limit of a decoded batch of messages in bytes.
func batchBytes(ctx context.Context) int { return max(sdk.Budget(ctx)/4, minBatch) }

// minBatch has room for the smallest messages in a batch of the size that brokers accept by default.
const minBatch = 16 << 20

func (s *Source) consumer(fetch int32, limiter *fetchLimiter) []kgo.Opt {
	return []kgo.Opt{
		kgo.WithHooks(s.network, fetchHook{limiter}),
		kgo.WithPools(&messagePool{}),
		kgo.WithContext(s.root),
		kgo.ConsumerGroup(s.group),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(s.settings.SessionTimeout),
		kgo.HeartbeatInterval(s.settings.SessionTimeout / 4),
		kgo.AdjustFetchOffsetsFn(s.assign),
		kgo.OnPartitionsRevoked(s.revoked),
		// Other members may have them already.
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { s.forget(lost) }),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // they show how far a partition was read
		kgo.ConsumeStartOffset(kgo.NewOffset().AtEnd()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxBytes(fetch),
		kgo.FetchMaxPartitionBytes(min(fetch, partitionBytes)),
		kgo.FetchMaxWait(fetchWait),
		kgo.MaxConcurrentFetches(concurrent),
	}
}

// fetchHook reports the memory of messages to limiter.
type fetchHook struct{ limiter *fetchLimiter }

// OnFetchBatchRead implements kgo.HookFetchBatchRead. A batch that cannot be decoded has no size.
func (h fetchHook) OnFetchBatchRead(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	if m.CompressedBytes > 0 {
		h.limiter.Fetched(m.CompressedBytes, m.UncompressedBytes+m.NumRecords*int(unsafe.Sizeof(kgo.Record{})))
	}
}

// Read returns the next records. The records of a batch may be from several partitions, in order within each.
func (s *Source) Read(ctx context.Context) ([]record.Record, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.broken, cancel)()
	for {
		if s.broken.Err() != nil {
			return nil, context.Cause(s.broken)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if records, err := s.take(); err != nil || len(records) > 0 {
			return records, err
		}
		failed := s.failure(s.failures)
		if s.failures = nil; failed != nil {
			return nil, failed
		}
		s.poll(ctx)
	}
}

// failure handles the errors of a fetch, and returns the first one that stops the source.
func (s *Source) failure(errs []kgo.FetchError) error {
	for _, e := range errs {
		var session *kgo.ErrGroupSession
		var loss *kgo.ErrDataLoss
		var large *kgo.ErrDecompressTooLarge
		switch {
		case errors.Is(e.Err, context.Canceled), errors.Is(e.Err, context.DeadlineExceeded),
			kgo.IsRetryableBrokerErr(e.Err):
		case errors.As(e.Err, &session):
			if !s.settings.RetryGroupJoinErrors {
				return sdk.Unavailable(fmt.Errorf("cannot join group %q: unable to join group session: %w", s.group,
					session.Err))
			}
			s.log.Warn("cannot join the group, retrying", "group", s.group, "err", session.Err)
		case errors.As(e.Err, &loss):
			return s.truncated(loss)
		case errors.As(e.Err, &large):
			s.leaveOut(e.Topic, e.Partition, large.NextOffset,
				fmt.Errorf("the batch of messages needs more than %d MiB of memory after decoding: "+
					"increase memory.limit", s.maxBytes>>20))
		case errors.Is(e.Err, ErrLater):
		case errors.Is(e.Err, kerr.OffsetOutOfRange):
			return s.outOfRange(e.Topic, e.Partition)
		case isDamage(e.Err):
			s.damaged(e.Topic, e.Partition, e.Err)
		default:
			return sdk.Unavailable(fmt.Errorf("cannot read partition %d of topic %q: %w", e.Partition, e.Topic, e.Err))
		}
	}
	return nil
}

// Teardown commits the acknowledged offsets, and leaves the group.
func (s *Source) Teardown(ctx context.Context) error {
	if s.buffer != nil {
		defer s.buffer.Close()
	}
	if s.client == nil {
		return nil
	}
	s.close()
	if s.stop != nil {
		s.stop()
	}
	s.work.Wait()
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	s.commit(ctx)
	_ = s.client.LeaveGroupContext(ctx) // the group notices a missing member anyway
	s.end()                             // otherwise Close tries to leave as long as the broker is unreachable
	s.client.Close()
	s.fail(nil)
	return nil
}

const leaveTimeout = 5 * time.Second

// LifecycleOnDeleted deletes the group if the settings say so.
func (s *Source) LifecycleOnDeleted(ctx context.Context, values map[string]string) error {
	var old sourceSettings
	opts, err := old.parse(values)
	if err != nil || !old.AutoCleanup || old.GroupID == "" {
		return err
	}
	err = administer(ctx, opts, func(ctx context.Context, c *kadm.Client) error {
		_, err := c.DeleteGroup(ctx, old.GroupID)
		return err
	})
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return fmt.Errorf("cannot remove consumer group %q: %w", old.GroupID, err)
	}
	return nil
}
