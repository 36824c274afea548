import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.HexFormat;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Derives an order's token, or a link to its package, with nothing but Java 17. */
public final class Derived {
    private static final String USAGE = """
        java Derived.java token ORDER            the authenticationToken that checkout hands to Wallet
        java Derived.java link ORDER EXPIRES     a "Track with Apple Wallet" link; EXPIRES in UNIX seconds, at most
                                                 a day ahead

        ORDER   <order type>/<order>

        TOKEN_SECRETS, in the environment, is the file of secrets, whose first one derives; WEB_SERVICE_URL the
        gateway's address, as it is in orders.
        """;

    private final SecretKeySpec key;

    Derived(byte[] secret) {
        this.key = new SecretKeySpec(secret, "HmacSHA256");
    }

    String token(String order) throws GeneralSecurityException {
        return authenticate(order).substring(0, 32);
    }

    /** expires: UNIX seconds. service: the gateway's address. */
    String link(String order, long expires, String service) throws GeneralSecurityException {
        return service + "/v1/orders/" + order + "/package?expires=" + expires
            + "&signature=" + authenticate("link:" + order + ":" + expires);
    }

    private String authenticate(String message) throws GeneralSecurityException {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(key);
        return HexFormat.of().formatHex(mac.doFinal(message.getBytes(StandardCharsets.UTF_8)));
    }

    /** Returns the first secret in a file's content: one a line, and empty lines are skipped. */
    static byte[] secret(byte[] content) throws IOException {
        // Latin-1 has a character for each byte, so the bytes come back as they were.
        for (String line : new String(content, StandardCharsets.ISO_8859_1).split("\n")) {
            String secret = line.endsWith("\r") ? line.substring(0, line.length() - 1) : line;
            if (!secret.isEmpty()) return secret.getBytes(StandardCharsets.ISO_8859_1);
        }
        throw new IOException("there is no secret in the file");
    }

    private static String variable(String name) throws IOException {
        String value = System.getenv(name);
        if (value == null) throw new IOException(name + " is not set");
        return value;
    }

    public static void main(String[] words) throws GeneralSecurityException {
        String verb = words.length == 0 ? "" : words[0] + " " + words.length;
        if (!verb.equals("token 2") && !verb.equals("link 3")) {
            System.err.print(USAGE);
            System.exit(2);
        }
        try {
            Derived derived = new Derived(secret(Files.readAllBytes(Path.of(variable("TOKEN_SECRETS")))));
            System.out.println(words[0].equals("token")
                ? derived.token(words[1])
                : derived.link(words[1], Long.parseLong(words[2]), variable("WEB_SERVICE_URL")));
        } catch (IOException | NumberFormatException error) {
            System.err.println("Derived: " + error.getMessage());
            System.exit(1);
        }
    }
}
