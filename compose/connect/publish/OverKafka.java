import java.io.FileReader;
import java.io.IOException;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Publishes a change of an order to Kafka, as a CloudEvent in binary mode. */
public final class OverKafka {
    private static final String USAGE = """
        java -cp 'libs/*' OverKafka.java merge ORDER ID <DATA     what this source knows of the order: a JSON object
        java -cp 'libs/*' OverKafka.java remove ORDER ID          removes the order

        ORDER   <order type>/<order>: the subject of the event, and the key of its record
        ID      the change's name in your system, such as the key of its row: sent again under this name, it has
                one effect

        SOURCE, in the environment, is the system that publishes; PUBLISHER_PROPERTIES a file with properties of
        Kafka's Java clients, one name=value a line: bootstrap.servers, and what the brokers require. libs has
        org.apache.kafka:kafka-clients and what it needs.
        """;
    private static final String TOPIC = "waybill.order-changes";
    private static final Map<String, String> TYPES =
        Map.of("merge", "waybill.order.merged", "remove", "waybill.order.removed");
    /**
     * All in-sync replicas have a record before it counts as published, and retries neither repeat nor reorder records.
     * The partitioner is the default one, which Waybill has, too: never set another, nor partitioner.ignore.keys.
     */
    private static final Map<String, String> GUARANTEES = Map.of(
        "acks", "all", "enable.idempotence", "true",
        // The largest change has 1 MiB, which is more than the default.
        "max.request.size", "2097152");

    private OverKafka() {}

    /** Returns the record of a change. data: JSON; null for a removal. */
    static ProducerRecord<String, byte[]> change(String type, String order, String id, String source, byte[] data) {
        // A removal has an empty object: a record without a value would be a tombstone.
        ProducerRecord<String, byte[]> record = new ProducerRecord<>(
            TOPIC, order, data == null ? "{}".getBytes(StandardCharsets.UTF_8) : data);
        Map.of("ce_specversion", "1.0", "ce_type", type, "ce_source", source, "ce_id", id, "ce_subject", order,
                "content-type", "application/json")
            .forEach((name, value) -> record.headers().add(name, value.getBytes(StandardCharsets.UTF_8)));
        return record;
    }

    /**
     * Returns once the change is published. It is retried for delivery.timeout.ms, two minutes by default. For many
     * changes: keep the producer, send them all, and wait for the last answers.
     */
    static void publish(Producer<String, byte[]> producer, ProducerRecord<String, byte[]> change)
            throws ExecutionException, InterruptedException {
        producer.send(change).get();
    }

    private static String variable(String name) throws IOException {
        String value = System.getenv(name);
        if (value == null) throw new IOException(name + " is not set");
        return value;
    }

    public static void main(String[] words) throws InterruptedException {
        if (words.length != 3 || !TYPES.containsKey(words[0])) {
            System.err.print(USAGE);
            System.exit(2);
        }
        try {
            Properties settings = new Properties();
            try (Reader file = new FileReader(Path.of(variable("PUBLISHER_PROPERTIES")).toFile())) {
                settings.load(file);
            }
            settings.putAll(GUARANTEES);
            byte[] data = words[0].equals("merge") ? System.in.readAllBytes() : null;
            try (Producer<String, byte[]> producer =
                    new KafkaProducer<>(settings, new StringSerializer(), new ByteArraySerializer())) {
                publish(producer, change(TYPES.get(words[0]), words[1], words[2], variable("SOURCE"), data));
            }
            System.out.println("published: " + words[2]);
        } catch (IOException | IllegalArgumentException error) {
            System.err.println("OverKafka: " + error.getMessage());
            System.exit(1);
        } catch (ExecutionException | KafkaException error) {
            Throwable reason = error.getCause() == null ? error : error.getCause();
            System.err.println("OverKafka: not published, publish it again under the same ID: " + reason.getMessage());
            System.exit(1);
        }
    }
}
