package kafka_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"runtime/metrics"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/conduit-agent/conduit/plugins/builtin/kafka"
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// compressed returns p compressed with codec, and the number of the codec.
func compressed(t testing.TB, codec kgo.CompressionCodec, p []byte) ([]byte, int8) {
	t.Helper()
	c, err := kgo.DefaultCompressor(codec)
	if err != nil {
		t.Fatal(err)
	}
	if c == nil {
		return p, 0
	}
	out, used := c.Compress(new(bytes.Buffer), p)
	return bytes.Clone(out), int8(used)
}

// batch returns a batch of encoded messages at an offset.
func batch(t testing.TB, codec kgo.CompressionCodec, offset int64, n int32, messages []byte) []byte {
	t.Helper()
	records, used := compressed(t, codec, messages)
	return batchOf(offset, byte(used), n, records)
}

// batchOf returns a batch of compressed messages.
func batchOf(offset int64, codec byte, n int32, records []byte) []byte {
	b := kmsg.RecordBatch{FirstOffset: offset, Magic: 2, NumRecords: n, LastOffsetDelta: max(0, n-1), ProducerID: -1,
		Records: records, Attributes: int16(codec), Length: int32(49 + len(records))}
	p := b.AppendTo(nil)
	binary.BigEndian.PutUint32(p[17:], crc32.Checksum(p[21:], crc32.MakeTable(crc32.Castagnoli)))
	return p
}

// message returns a message at a place in a batch. Its headers are already encoded.
func message(delta int64, key, value string, announced int64, headers []byte) []byte {
	b := binary.AppendVarint([]byte{0, 0}, delta)
	b = append(binary.AppendVarint(b, int64(len(key))), key...)
	b = append(binary.AppendVarint(b, int64(len(value))), value...)
	b = append(binary.AppendVarint(b, announced), headers...)
	return append(binary.AppendVarint(nil, int64(len(b))), b...)
}

// old returns a message in a format that preceded batches.
func old(magic int8, offset int64, codec int8, value []byte) []byte {
	var p []byte
	if magic == 0 {
		m := kmsg.MessageV0{Offset: offset, MessageSize: int32(14 + len(value)), Attributes: codec, Value: value}
		p = m.AppendTo(nil)
	} else {
		m := kmsg.MessageV1{Offset: offset, MessageSize: int32(22 + len(value)), Magic: 1, Attributes: codec,
			Value: value}
		p = m.AppendTo(nil)
	}
	binary.BigEndian.PutUint32(p[12:], crc32.ChecksumIEEE(p[16:]))
	return p
}

// decode lets the client decode an answer that starts at an offset. It marks the batches as a connection does.
func decode(b *kafka.Bound, offset int64, all ...[]byte) (kgo.FetchPartition, int64) {
	var earlier int64
	for _, p := range all {
		if p[16] == 2 {
			b.Mark(p[:61], earlier)
			earlier += int64(binary.BigEndian.Uint32(p[57:]))
		}
	}
	answer := kmsg.FetchResponseTopicPartition{RecordBatches: bytes.Join(all, nil)}
	return kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: offset, Topic: "t"}, &answer, b, nil)
}

func bound(t testing.TB, most int) *kafka.Bound {
	t.Helper()
	b, err := kafka.New(most)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// TestHostile decodes batches that expand to many times their size in memory, in every codec and format. They must be
// refused before the client allocates the memory.
func TestHostile(t *testing.T) {
	const most, size = 2 << 20, 7 << 18
	headers := message(0, "", "", size/2, make([]byte, size))
	announced := message(0, "", "", size, make([]byte, size))
	small := message(0, "", "", 0, nil)
	for codecName, codec := range codecs {
		for name, p := range map[string][]byte{
			"headers":            batch(t, codec, 0, 1, headers),
			"announced headers":  batch(t, codec, 0, 1, announced),
			"messages":           batch(t, codec, 0, size/7, bytes.Repeat(small, size/7)),
			"announced messages": batch(t, codec, 0, size, append(small, make([]byte, size)...)),
			"hidden headers":     batch(t, codec, 0, 1, append(bytes.Clone(headers), 1, 2, 3)),
			"negative":           batch(t, codec, 0, -1, headers),
			"old, version 0":     outer(t, codec, 0, size),
			"old, version 1":     outer(t, codec, 1, size),
		} {
			if p == nil {
				continue
			}
			t.Run(name+"/"+codecName, func(t *testing.T) {
				b := bound(t, most)
				before := allocated()
				f, _ := decode(b, 0, p)
				// The growing buffer for the text of a batch is copied. lz4 uses two blocks of 4 MiB, which it does not
				// always find in its pool.
				if n := allocated() - before; n > 5*most+8<<20 {
					t.Errorf("%d MiB were allocated, with a bound of %d", n>>20, most>>20)
				}
				if f.Err == nil || errors.Is(f.Err, kafka.ErrLater) || len(f.Records) > 0 {
					t.Errorf("%d messages were read: %v", len(f.Records), f.Err)
				}
			})
		}
	}
}

// outer returns a compressed message that contains messages of the smallest size, or nil if the format does not support
// the codec.
func outer(t *testing.T, codec kgo.CompressionCodec, magic int8, size int) []byte {
	t.Helper()
	one := old(magic, 0, 0, nil)
	p, used := compressed(t, codec, bytes.Repeat(one, size/len(one)))
	if used == 0 || used > 3 {
		return nil
	}
	return old(magic, 1, used, p)
}

// TestSame checks that ordinary batches are decoded as by the client alone.
func TestSame(t *testing.T) {
	t.Parallel()
	for name, codec := range codecs {
		header := append(binary.AppendVarint([]byte{4, 'a', 'b'}, -1), 2, 'c', 6, 'd', 'e', 'f')
		var messages []byte
		for i := range int64(100) {
			messages = append(messages, message(i, fmt.Sprint(i), "value", i%2*2, header[:i%2*int64(len(header))])...)
		}
		all := [][]byte{batch(t, codec, 5, 100, messages), batch(t, codec, 105, 0, nil)}
		if o := outer(t, codec, 1, 1000); o != nil {
			binary.BigEndian.PutUint64(o, 300)
			all = append(all, o)
		}
		all = append(all, old(0, 400, 0, []byte("old")), old(1, 401, 0, []byte("old")))
		answer := kmsg.FetchResponseTopicPartition{RecordBatches: bytes.Join(all, nil)}
		opts := kgo.ProcessFetchPartitionOpts{Offset: 5, Topic: "t"}
		want, wantNext := kgo.ProcessFetchPartition(opts, &answer, kgo.DefaultDecompressor(), nil)
		got, next := decode(bound(t, 1<<20), 5, all...)
		if want.Err != nil || got.Err != nil || next != wantNext || len(want.Records) < 102 ||
			len(got.Records) != len(want.Records) {
			t.Fatalf("%s: %d messages up to %d, %v; want %d up to %d, %v", name, len(got.Records), next, got.Err,
				len(want.Records), wantNext, want.Err)
		}
		for i, m := range got.Records {
			m.Attrs, want.Records[i].Attrs = kgo.RecordAttrs{}, kgo.RecordAttrs{} // the codec
			if !reflect.DeepEqual(m, want.Records[i]) {
				t.Errorf("%s: message %d is %+v, want %+v", name, i, m, want.Records[i])
			}
		}
	}
}

// TestDamaged checks that wrong checksums stay wrong, and that undecodable batches are reported.
func TestDamaged(t *testing.T) {
	t.Parallel()
	for name, codec := range codecs {
		whole := batch(t, codec, 0, 1, message(0, "k", "value", 0, nil))
		for i := 21; i < len(whole); i++ {
			damaged := bytes.Clone(whole)
			damaged[i] ^= 1
			if f, _ := decode(bound(t, 1<<20), 0, damaged); f.Err == nil || errors.Is(f.Err, kgo.ErrMaxDecompress) &&
				i < 57 {
				t.Errorf("%s: byte %d is changed: %d messages, %v", name, i, len(f.Records), f.Err)
			}
		}
		cut := message(0, "k", "value", 0, nil)
		if f, _ := decode(bound(t, 1<<20), 0, batch(t, codec, 0, 1, cut[:len(cut)-1])); f.Err == nil {
			t.Errorf("%s: a message that is cut off was read", name)
		}
		if len(whole) > 61 && name != "none" {
			short := batchOf(0, whole[22]&7, 1, whole[61:64])
			if f, _ := decode(bound(t, 1<<20), 0, short); f.Err == nil || kgo.IsRetryableBrokerErr(f.Err) {
				t.Errorf("%s: compressed data that is cut off: %v", name, f.Err)
			}
		}
	}
}

// TestLater decodes at most a share of an answer, and of several answers, and the rest after a release.
func TestLater(t *testing.T) {
	t.Parallel()
	for name, codec := range codecs {
		const most, each = 1 << 20, 1500 // messages, a quarter of most
		var messages []byte
		for i := range int64(each) {
			messages = append(messages, message(i, "", "", 0, nil)...)
		}
		b := bound(t, most)
		var next, since int64
		for next < 20*each {
			var all [][]byte
			for offset := next; offset < 20*each; offset += each {
				all = append(all, batch(t, codec, offset, each, messages))
			}
			f, end := decode(b, next, all...)
			n, full := end-next, errors.Is(f.Err, kafka.ErrLater)
			if n > 4*each || n == 0 && (since == 0 || !full) || n > 0 && f.Err != nil {
				t.Fatalf("%s: an answer has %d messages behind %d: %v", name, n, since, f.Err)
			} else if since += n; since > 8*each {
				t.Fatalf("%s: %d messages are decoded without a release", name, since)
			} else if n == 0 {
				b.Release()
				since = 0
			}
			next = end
		}
	}
}

// BenchmarkDecode decodes batches of ordinary messages, by the client alone and with a bound.
func BenchmarkDecode(b *testing.B) {
	value := string(bytes.Repeat([]byte("value "), 20))
	var messages []byte
	const n = 7000
	for i := range int64(n) {
		messages = append(messages, message(i, fmt.Sprint(i), value, 0, nil)...)
	}
	for _, name := range []string{"none", "zstd"} {
		for _, bounded := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/bounded=%t", name, bounded), func(b *testing.B) {
				whole, decompressor := batch(b, codecs[name], 0, n, messages), kgo.DefaultDecompressor()
				bound := bound(b, 64<<20)
				if bounded {
					decompressor = bound
				}
				b.SetBytes(int64(len(messages)))
				for b.Loop() {
					p := bytes.Clone(whole)
					if bounded {
						bound.Mark(p[:61], 0)
						bound.Release()
					}
					answer := kmsg.FetchResponseTopicPartition{RecordBatches: p}
					f, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: "t"}, &answer, decompressor,
						nil)
					if f.Err != nil || len(f.Records) != n {
						b.Fatal(len(f.Records), f.Err)
					}
				}
			})
		}
	}
}
