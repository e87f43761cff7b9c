// Runs the mock cluster of librdkafka: 3 brokers, and the topic "mock" of 4 partitions. It
// prints the addresses of the brokers, and ends with its standard input.
#include <stdio.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

int main(void) {
	char err[512];
	rd_kafka_t *client = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), err, sizeof err);
	rd_kafka_mock_cluster_t *cluster = client ? rd_kafka_mock_cluster_new(client, 3) : NULL;
	if (!cluster || rd_kafka_mock_topic_create(cluster, "mock", 4, 1)) {
		fprintf(stderr, "cannot make the cluster: %s\n", err);
		return 1;
	}
	printf("%s\n", rd_kafka_mock_cluster_bootstraps(cluster));
	fflush(stdout);
	while (getchar() != EOF)
		;
	rd_kafka_mock_cluster_destroy(cluster);
	rd_kafka_destroy(client);
	return 0;
}
