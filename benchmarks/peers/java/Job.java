import java.io.IOException;
import java.io.Reader;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;

/** One cell as the Python side describes it, and the clock of CPU time by which its budget is kept. */
final class Job {
    private static final com.sun.management.OperatingSystemMXBean SYSTEM =
            (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    final Stream stream;
    final String query;
    final String statement; // the query in the engine's own language, where it has one
    final long window;
    final double rise;
    final boolean hasTies;
    final boolean isCounted; // the sum of live counts is wanted, not the number of matches
    final int events;
    final double budget; // CPU seconds of one run
    final double warmUp;
    final int repeats;

    Job(Path path) throws IOException {
        Properties given = new Properties();
        try (Reader reader = Files.newBufferedReader(path)) {
            given.load(reader);
        }
        stream = new Stream(Path.of(given.getProperty("stream")));
        query = given.getProperty("query");
        statement = given.getProperty("statement");
        window = Long.parseLong(given.getProperty("window"));
        rise = Double.parseDouble(given.getProperty("rise"));
        hasTies = Boolean.parseBoolean(given.getProperty("has_ties"));
        isCounted = Boolean.parseBoolean(given.getProperty("is_counted"));
        events = Math.min(stream.size, Integer.parseInt(given.getProperty("events")));
        budget = Double.parseDouble(given.getProperty("budget"));
        warmUp = Double.parseDouble(given.getProperty("warm_up"));
        repeats = Integer.parseInt(given.getProperty("repeats"));
    }

    /** The CPU time of this process so far, all its threads, in seconds. */
    static double cpuSeconds() {
        return SYSTEM.getProcessCpuTime() / 1e9;
    }
}
