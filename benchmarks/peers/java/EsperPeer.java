import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.EventSender;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPEventService;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;
import java.nio.file.Path;

/** Esper: one event type a role, time set from outside, a listener that counts. */
public final class EsperPeer {
    private static final Class<?>[] TYPES = {A.class, B.class, C.class, D.class, E.class, N.class};

    private EsperPeer() {}

    public static void main(String[] arguments) throws Exception {
        Job job = new Job(Path.of(arguments[0]));
        Tick[] ticks = new Tick[job.events];
        for (int i = 0; i < job.events; i++) {
            ticks[i] = tick(job.stream, i);
        }
        Harness.measure(job, tally -> new Deployed(job, ticks, tally));
    }

    private static final class Deployed implements Harness.Engine {
        private final Stream stream;
        private final Tick[] ticks;
        private final EPRuntime runtime;
        private final EPEventService service;
        private final EventSender[] senders = new EventSender[Stream.ROLES];

        Deployed(Job job, Tick[] ticks, Tally tally) throws Exception {
            this.stream = job.stream;
            this.ticks = ticks;
            Configuration configuration = new Configuration();
            for (Class<?> type : TYPES) {
                configuration.getCommon().addEventType(type.getSimpleName(), type);
            }
            configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
            configuration.getRuntime().getThreading().setListenerDispatchPreserveOrder(false);
            configuration.getRuntime().getThreading().setInsertIntoDispatchPreserveOrder(false);
            runtime = EPRuntimeProvider.getRuntime("peer-" + System.nanoTime(), configuration);
            service = runtime.getEventService();
            service.clockExternal();
            service.advanceTime(stream.ts[0]);
            EPCompiled compiled =
                    EPCompilerProvider.getCompiler().compile(job.statement, new CompilerArguments(configuration));
            EPStatement[] statements = runtime.getDeploymentService().deploy(compiled).getStatements();
            statements[statements.length - 1].addListener((found, gone, statement, from) -> {
                if (found != null) {
                    for (EventBean match : found) {
                        tally.add(((Tick) match.get("a")).seq, ((Tick) match.get("c")).seq);
                    }
                }
            });
            for (int role = 0; role < Stream.ROLES; role++) {
                senders[role] = service.getEventSender(TYPES[role].getSimpleName());
            }
        }

        @Override
        public void push(int place) {
            Tick tick = ticks[place];
            if (tick != null) {
                service.advanceTime(tick.ts);
                senders[stream.type[place]].sendEvent(tick);
            }
        }

        @Override
        public void close() {
            runtime.destroy();
        }
    }

    private static Tick tick(Stream stream, int i) {
        long ts = stream.ts[i];
        double diff = stream.diff[i];
        long k = stream.k[i];
        switch (stream.type[i]) {
            case 0:
                return new A(i, ts, diff, k);
            case 1:
                return new B(i, ts, diff, k);
            case 2:
                return new C(i, ts, diff, k);
            case 3:
                return new D(i, ts, diff, k);
            case 4:
                return new E(i, ts, diff, k);
            case 5:
                return new N(i, ts, diff, k);
            default:
                return null;
        }
    }

    /** What all events have. */
    public abstract static class Tick {
        final int seq;
        final long ts;
        final double diff;
        final long k;

        Tick(int seq, long ts, double diff, long k) {
            this.seq = seq;
            this.ts = ts;
            this.diff = diff;
            this.k = k;
        }

        public long getTs() {
            return ts;
        }

        public double getDiff() {
            return diff;
        }

        public long getK() {
            return k;
        }
    }

    public static final class A extends Tick {
        A(int seq, long ts, double diff, long k) {
            super(seq, ts, diff, k);
        }
    }

    public static final class B extends Tick {
        B(int seq, long ts, double diff, long k) {
            super(seq, ts, diff, k);
        }
    }

    public static final class C extends Tick {
        C(int seq, long ts, double diff, long k) {
            super(seq, ts, diff, k);
        }
    }

    public static final class D extends Tick {
        D(int seq, long ts, double diff, long k) {
            super(seq, ts, diff, k);
        }
    }

    public static final class E extends Tick {
        E(int seq, long ts, double diff, long k) {
            super(seq, ts, diff, k);
        }
    }

    public static final class N extends Tick {
        N(int seq, long ts, double diff, long k) {
            super(seq, ts, diff, k);
        }
    }
}
