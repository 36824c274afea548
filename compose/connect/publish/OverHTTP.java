import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Set;

/** Publishes a change of an order over HTTP, with nothing but Java 17. */
public final class OverHTTP {
    private static final String USAGE = """
        java OverHTTP.java merge ORDER ID <DATA     what this source knows of the order: a JSON object
        java OverHTTP.java remove ORDER ID          removes the order

        ORDER   <order type>/<order>
        ID      the change's name in your system, such as the key of its row: sent again under this name, it has
                one effect

        CHECKOUT_URL, in the environment, is the address of `waybill-gateway checkout`; CHECKOUT_KEY_FILE a file with a
        key of the scope `orders`, which also names the source. Prints the answer.
        """;
    /** Seconds until the first try is repeated, the second, and so on, unless the answer asks for more. */
    private static final int[] PAUSES = {1, 2, 4, 8, 16};
    private static final int LONGEST_PAUSE = 60;
    private static final Set<Integer> TRANSIENT = Set.of(429, 500, 502, 503, 504);

    /** An answer that stays the same until the request or the configuration changes. */
    static final class Refused extends Exception {
        Refused(String said) { super("refused: " + said); }
    }

    /** The service could not be reached, or failed, several times. The change may have been published. */
    static final class NotPublished extends Exception {
        NotPublished(String said) { super("not published, publish it again under the same ID: " + said); }
    }

    /** Follows no redirect, so that the key goes nowhere else. */
    private final HttpClient client = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(5)).build();
    private final String service;
    private final String key;

    OverHTTP(String service, String key) {
        this.service = service.replaceAll("/+$", "");
        this.key = key;
    }

    /** Creates the order, or merges a part into it. data: JSON. */
    String merge(String order, String id, byte[] data) throws Refused, NotPublished, InterruptedException {
        return publish(request(order + "/merge", id)
            .header("Content-Type", "application/json").POST(BodyPublishers.ofByteArray(data)).build());
    }

    String remove(String order, String id) throws Refused, NotPublished, InterruptedException {
        return publish(request(order, id).DELETE().build());
    }

    private HttpRequest.Builder request(String path, String id) {
        return HttpRequest.newBuilder(URI.create(service + "/v1/checkout/orders/" + path))
            .timeout(Duration.ofSeconds(30)).header("Authorization", "Bearer " + key).header("Idempotency-Key", id);
    }

    /**
     * Returns the answer once all in-sync replicas of Kafka have the change. A request without an answer, or with one
     * that may pass, is sent again with the same Idempotency-Key, so it has one effect.
     */
    private String publish(HttpRequest request) throws Refused, NotPublished, InterruptedException {
        for (int attempt = 0;; attempt++) {
            long wait = 0;
            String said;
            try {
                HttpResponse<String> answer = client.send(request, BodyHandlers.ofString());
                if (answer.statusCode() == 202) return answer.body();
                said = answer.statusCode() + " " + answer.body();
                boolean isInProgress = answer.statusCode() == 409 && answer.body().contains("\"in_progress\"");
                if (!isInProgress && !TRANSIENT.contains(answer.statusCode())) throw new Refused(said);
                wait = answer.headers().firstValue("Retry-After").filter(text -> text.matches("[0-9]{1,9}"))
                    .map(Long::valueOf).orElse(0L);
            } catch (IOException error) {
                said = error.toString();
            }
            if (attempt == PAUSES.length) throw new NotPublished(said);
            Thread.sleep(1000 * Math.min(Math.max(PAUSES[attempt], wait), LONGEST_PAUSE));
        }
    }

    private static String variable(String name) throws IOException {
        String value = System.getenv(name);
        if (value == null) throw new IOException(name + " is not set");
        return value;
    }

    public static void main(String[] words) throws InterruptedException {
        if (words.length != 3 || !Set.of("merge", "remove").contains(words[0])) {
            System.err.print(USAGE);
            System.exit(2);
        }
        try {
            String key = Files.readString(Path.of(variable("CHECKOUT_KEY_FILE"))).strip();
            OverHTTP publisher = new OverHTTP(variable("CHECKOUT_URL"), key);
            System.out.println(words[0].equals("merge")
                ? publisher.merge(words[1], words[2], System.in.readAllBytes())
                : publisher.remove(words[1], words[2]));
        } catch (IOException | IllegalArgumentException | Refused | NotPublished error) {
            System.err.println("OverHTTP: " + error.getMessage());
            System.exit(1);
        }
    }
}
