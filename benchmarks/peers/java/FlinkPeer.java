import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.PatternStream;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.util.Collector;

/**
 * Flink CEP: followedByAny in event time, local execution, one task. What has been worked through is known from the
 * watermarks that come out of the pattern operator, so that the source may run ahead as it does in any job.
 */
public final class FlinkPeer {
    private static final int MARK_EVERY = 16;
    private static final int N = 5;

    // The job's operators run in this process, so that they find here what they need.
    private static Job job;
    private static Progress progress;

    private FlinkPeer() {}

    public static void main(String[] arguments) throws Exception {
        job = new Job(Path.of(arguments[0]));
        Tally tally = new Tally(job);
        run(tally, job.warmUp);
        Harness.Run best = run(tally, job.budget);
        double spent = best.cpu();
        for (int k = 1; k < job.repeats && best.events() == job.events && spent + best.cpu() <= job.budget; k++) {
            Harness.Run again = run(tally, job.budget);
            spent += again.cpu();
            best = again.cpu() < best.cpu() ? again : best;
        }
        Harness.print(best);
        Runtime.getRuntime().halt(0);
    }

    private static Harness.Run run(Tally tally, double budget) throws Exception {
        System.gc();
        tally.clear();
        progress = new Progress(tally, budget);
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1);
        environment.getConfig().enableObjectReuse();
        GeneratorFunction<Long, Tick> generate = number -> {
            if (number == 0) {
                progress.start();
            }
            return new Tick(job.stream, number.intValue());
        };
        DataStream<Tick> ticks = environment
                .fromSource(
                        new DataGeneratorSource<>(generate, job.events, Types.POJO(Tick.class)),
                        WatermarkStrategy.<Tick>forGenerator(context -> new Marks())
                                .withTimestampAssigner((tick, before) -> tick.ts),
                        "ticks")
                .filter(FlinkPeer::isNamed);
        if (job.query.equals("Q6")) {
            ticks = ticks.keyBy(tick -> tick.k);
        }
        PatternStream<Tick> found = CEP.pattern(ticks, pattern());
        String last = job.query.equals("Q5") ? "e" : "c";
        found.process(new Ends(last))
                .transform("watch", Types.LONG, new Watch())
                .sinkTo(new DiscardingSink<>());
        JobClient client = environment.executeAsync();
        while (!progress.isOver) {
            if (client.getJobStatus().get().isGloballyTerminalState()) {
                break;
            }
            Thread.sleep(5);
        }
        String note = "";
        if (progress.isOver) {
            client.cancel();
        }
        try {
            client.getJobExecutionResult().get();
        } catch (Exception failure) {
            if (!progress.isOver) {
                note = hasCause(failure, OutOfMemoryError.class) ? "out of memory" : failure.toString();
            }
        }
        return progress.result(note);
    }

    private static boolean hasCause(Throwable failure, Class<?> kind) {
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            if (kind.isInstance(cause) || cause.toString().contains(kind.getName())) {
                return true;
            }
        }
        return false;
    }

    private static boolean isNamed(Tick tick) {
        switch (job.query) {
            case "Q5":
                return tick.type < N;
            case "Q3":
                return tick.type <= 2 || tick.type == N;
            default:
                return tick.type <= 2;
        }
    }

    // -- the queries ---------------------------------------------------------------------------------------------

    private static Pattern<Tick, ?> pattern() {
        Pattern<Tick, Tick> first = Pattern.<Tick>begin("a").where(new IsType(0));
        Pattern<Tick, Tick> whole;
        switch (job.query) {
            case "Q1":
                whole = chain(first, 3, true);
                break;
            case "Q3":
                whole = first.notFollowedBy("n").where(new IsType(N)).where(new SameKeyLater("a"));
                whole = whole.followedByAny("b").where(new IsType(1)).where(new Rising("a"));
                whole = whole.followedByAny("c").where(new IsType(2)).where(new Rising("b"));
                break;
            case "Q4":
                whole = first.followedByAny("b").where(new IsType(1)).where(new RisingInList())
                        .oneOrMore().allowCombinations();
                whole = whole.followedByAny("c").where(new IsType(2)).where(new RisingAfterList());
                break;
            case "Q5":
                whole = chain(first, 5, true);
                break;
            case "Q6": // the stream is keyed
            case "Q7":
                whole = chain(first, 3, false);
                break;
            default:
                throw new IllegalArgumentException(job.query);
        }
        return whole.within(Duration.ofMillis(job.window));
    }

    private static Pattern<Tick, Tick> chain(Pattern<Tick, Tick> first, int length, boolean isRising) {
        Pattern<Tick, Tick> whole = first;
        for (int k = 1; k < length; k++) {
            String before = "abcde".substring(k - 1, k);
            whole = whole.followedByAny("abcde".substring(k, k + 1)).where(new IsType(k));
            if (isRising) {
                whole = whole.where(new Rising(before));
            } else if (job.hasTies) {
                whole = whole.where(new Later(before));
            }
        }
        return whole;
    }

    private static Tick only(IterativeCondition.Context<Tick> context, String name) throws Exception {
        return context.getEventsForPattern(name).iterator().next();
    }

    /** The last element of a list; null if it has none. */
    private static Tick last(IterativeCondition.Context<Tick> context, String name) throws Exception {
        Tick found = null;
        for (Tick tick : context.getEventsForPattern(name)) {
            found = tick;
        }
        return found;
    }

    private static final class IsType extends IterativeCondition<Tick> {
        private final int type;

        IsType(int type) {
            this.type = type;
        }

        @Override
        public boolean filter(Tick tick, Context<Tick> context) {
            return tick.type == type;
        }
    }

    /** After the event of another name, and greater. */
    private static final class Rising extends IterativeCondition<Tick> {
        private final String before;

        Rising(String before) {
            this.before = before;
        }

        @Override
        public boolean filter(Tick tick, Context<Tick> context) throws Exception {
            Tick earlier = only(context, before);
            return tick.diff > earlier.diff && tick.ts > earlier.ts;
        }
    }

    private static final class Later extends IterativeCondition<Tick> {
        private final String before;

        Later(String before) {
            this.before = before;
        }

        @Override
        public boolean filter(Tick tick, Context<Tick> context) throws Exception {
            return tick.ts > only(context, before).ts;
        }
    }

    private static final class SameKeyLater extends IterativeCondition<Tick> {
        private final String before;

        SameKeyLater(String before) {
            this.before = before;
        }

        @Override
        public boolean filter(Tick tick, Context<Tick> context) throws Exception {
            Tick earlier = only(context, before);
            return tick.k == earlier.k && tick.ts > earlier.ts;
        }
    }

    private static final class RisingInList extends IterativeCondition<Tick> {
        @Override
        public boolean filter(Tick tick, Context<Tick> context) throws Exception {
            Tick earlier = last(context, "b");
            if (earlier == null) {
                earlier = only(context, "a");
            }
            return tick.diff > earlier.diff + job.rise && tick.ts > earlier.ts;
        }
    }

    private static final class RisingAfterList extends IterativeCondition<Tick> {
        @Override
        public boolean filter(Tick tick, Context<Tick> context) throws Exception {
            Tick earlier = last(context, "b");
            return tick.diff > earlier.diff + job.rise && tick.ts > earlier.ts;
        }
    }

    // -- what the job is made of -----------------------------------------------------------------------------------

    /** An event, as Flink's serialiser for plain objects wants it. */
    public static final class Tick {
        public int seq;
        public byte type;
        public long ts;
        public double diff;
        public long k;

        public Tick() {}

        Tick(Stream stream, int i) {
            seq = i;
            type = stream.type[i];
            ts = stream.ts[i];
            diff = stream.diff[i];
            k = stream.k[i];
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Tick && ((Tick) other).seq == seq;
        }

        @Override
        public int hashCode() {
            return seq;
        }
    }

    private static final class Marks implements WatermarkGenerator<Tick> {
        private int seen;

        @Override
        public void onEvent(Tick tick, long ts, WatermarkOutput output) {
            if (++seen % MARK_EVERY == 0) {
                output.emitWatermark(new Watermark(ts - 1));
            }
        }

        @Override
        public void onPeriodicEmit(WatermarkOutput output) {}
    }

    private static final class Ends extends PatternProcessFunction<Tick, Long> {
        private final String last;

        Ends(String last) {
            this.last = last;
        }

        @Override
        public void processMatch(Map<String, List<Tick>> match, Context context, Collector<Long> out) {
            long a = match.get("a").get(0).seq;
            out.collect(a << 32 | match.get(last).get(0).seq);
        }
    }

    private static final class Watch extends AbstractStreamOperator<Long>
            implements OneInputStreamOperator<Long, Long> {
        @Override
        public void processElement(StreamRecord<Long> record) {
            long ends = record.getValue();
            progress.add((int) (ends >>> 32), (int) ends);
        }

        @Override
        public void processWatermark(org.apache.flink.streaming.api.watermark.Watermark mark) throws Exception {
            progress.reach(mark.getTimestamp());
            super.processWatermark(mark);
        }
    }

    /** How far the job is. */
    private static final class Progress {
        private final Tally tally;
        private final double budget;
        private double cpu;
        private long wall;
        private int events;
        private long matches;
        private double spent;
        private double elapsed;
        volatile boolean isOver;

        Progress(Tally tally, double budget) {
            this.tally = tally;
            this.budget = budget;
        }

        void start() {
            cpu = Job.cpuSeconds();
            wall = System.nanoTime();
        }

        void add(int a, int c) {
            if (!isOver) {
                tally.add(a, c);
            }
        }

        /** All events up to a time have been worked through. */
        void reach(long time) {
            if (isOver) {
                return;
            }
            int place = Arrays.binarySearch(job.stream.ts, 0, job.events, time);
            if (place < 0) {
                place = -place - 1;
            } else {
                while (place < job.events && job.stream.ts[place] == time) {
                    place++;
                }
            }
            events = place;
            matches = job.isCounted ? -1 : tally.matches;
            spent = Job.cpuSeconds() - cpu;
            elapsed = (System.nanoTime() - wall) / 1e9;
            if (spent > budget || events == job.events) {
                matches = tally.total(events);
                isOver = true;
            }
        }

        Harness.Run result(String note) {
            return new Harness.Run(events, matches, spent, elapsed, note);
        }
    }
}
