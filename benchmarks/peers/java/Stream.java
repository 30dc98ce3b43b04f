import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;

/** The events as columns, read from the file that the Python side writes: a count, then ts, diff, k and type. */
final class Stream {
    static final int ROLES = 6; // A, B, C, D, E, N; greater codes are of types that no query names

    final int size;
    final long[] ts;
    final double[] diff;
    final long[] k;
    final byte[] type;

    Stream(Path path) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(path)).order(ByteOrder.LITTLE_ENDIAN);
        size = (int) bytes.getLong();
        ts = new long[size];
        diff = new double[size];
        k = new long[size];
        type = new byte[size];
        bytes.asLongBuffer().get(ts);
        bytes.position(8 + 8 * size);
        bytes.asDoubleBuffer().get(diff);
        bytes.position(8 + 16 * size);
        bytes.asLongBuffer().get(k);
        bytes.position(8 + 24 * size);
        bytes.get(type);
    }
}
