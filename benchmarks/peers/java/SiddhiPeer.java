import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;
import java.nio.file.Path;

/** Siddhi: one stream a role, time from the events (playback), a callback that counts. */
public final class SiddhiPeer {
    private static final String[] NAMES = {"A", "B", "C", "D", "E", "N"};

    private SiddhiPeer() {}

    public static void main(String[] arguments) throws Exception {
        Job job = new Job(Path.of(arguments[0]));
        Harness.measure(job, tally -> new Deployed(job, tally));
        System.exit(0); // its timers would keep the process alive
    }

    private static final class Deployed implements Harness.Engine {
        private final Stream stream;
        private final SiddhiManager manager = new SiddhiManager();
        private final InputHandler[] inputs = new InputHandler[Stream.ROLES];

        Deployed(Job job, Tally tally) {
            stream = job.stream;
            SiddhiAppRuntime runtime = manager.createSiddhiAppRuntime(job.statement);
            runtime.addCallback("Found", new StreamCallback() {
                @Override
                public void receive(Event[] found) {
                    for (Event match : found) {
                        tally.add((Integer) match.getData(0), (Integer) match.getData(1));
                    }
                }
            });
            runtime.start();
            for (int role = 0; role < Stream.ROLES; role++) {
                if (job.statement.contains("define stream " + NAMES[role] + " ")) {
                    inputs[role] = runtime.getInputHandler(NAMES[role]);
                }
            }
        }

        @Override
        public void push(int place) throws InterruptedException {
            int role = stream.type[place];
            if (role < Stream.ROLES && inputs[role] != null) {
                long ts = stream.ts[place];
                inputs[role].send(ts, new Object[] {place, ts, stream.diff[place], stream.k[place]});
            }
        }

        @Override
        public void close() {
            manager.shutdown();
        }
    }
}
