package rabbitmq

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/conduit-agent/conduit/plugins/record"
)

// headerPrefix is the prefix of metadata that are headers of a message.
const headerPrefix = "rabbitmq.header."

// recordOf returns the record of a message, without a position.
func recordOf(queue string, d *amqp.Delivery) record.Record {
	r := record.Record{Operation: record.OperationCreate, After: record.Raw(d.Body)}
	r.Metadata.Set(record.KeyCollection, queue)
	for _, one := range []struct{ key, value string }{
		{"exchange", d.Exchange}, {"routingKey", d.RoutingKey}, {"messageID", d.MessageId},
		{"contentType", d.ContentType}, {"contentEncoding", d.ContentEncoding}, {"correlationID", d.CorrelationId},
		{"replyTo", d.ReplyTo}, {"expiration", d.Expiration}, {"type", d.Type}, {"userID", d.UserId},
		{"appID", d.AppId},
	} {
		if one.value != "" {
			r.Metadata.Set("rabbitmq."+one.key, record.ValidName(one.value))
		}
	}
	if d.Priority > 0 {
		r.Metadata.Set("rabbitmq.priority", strconv.Itoa(int(d.Priority)))
	}
	if d.DeliveryMode == amqp.Persistent {
		r.Metadata.Set("rabbitmq.persistent", "true")
	}
	if d.Redelivered {
		r.Metadata.Set("rabbitmq.redelivered", "true")
	}
	if !d.Timestamp.IsZero() {
		r.Metadata.Set(record.KeyCreatedAt, strconv.FormatInt(d.Timestamp.UnixNano(), 10))
	}
	for name, value := range d.Headers {
		if name != offsetHeader {
			r.Metadata.Set(headerPrefix+record.ValidName(name), headerText(value))
		}
	}
	parent, _ := d.Headers[record.KeyTraceParent].(string)
	state, _ := d.Headers[record.KeyTraceState].(string)
	r.Metadata.SetTraceContext(parent, state)
	return r
}

// headerText returns the value of a header as text: lists and tables as JSON.
func headerText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return record.ValidName(v)
	case []byte:
		return record.ValidName(string(v))
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case amqp.Table, []any:
		text, err := json.Marshal(v)
		if err != nil {
			return record.ValidName(fmt.Sprint(v)) // a number that JSON does not have
		}
		return string(text)
	}
	return fmt.Sprint(value)
}
