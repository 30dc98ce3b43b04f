import java.util.Locale;

/** Runs an engine that takes one event after the other, within a budget, and prints what came out as a line of JSON. */
final class Harness {
    private static final int CHECK_EVERY = 16;

    /** An engine with the query deployed, which tells a tally what it finds. */
    interface Engine extends AutoCloseable {
        /** Take in the event at a place of the stream. */
        void push(int place) throws Exception;
    }

    /** Deploys the query anew. */
    interface Deploy {
        Engine deploy(Tally tally) throws Exception;
    }

    /** What one run gave. */
    record Run(int events, long matches, double cpu, double wall, String note) {}

    private Harness() {}

    static void measure(Job job, Deploy deploy) throws Exception {
        Tally tally = new Tally(job);
        run(job, deploy, tally, job.warmUp);
        Run best = run(job, deploy, tally, job.budget);
        double spent = best.cpu;
        for (int k = 1; k < job.repeats && best.events == job.events && spent + best.cpu <= job.budget; k++) {
            Run again = run(job, deploy, tally, job.budget);
            spent += again.cpu;
            if (again.matches != best.matches) {
                throw new AssertionError("two runs found " + best.matches + " and " + again.matches);
            }
            best = again.cpu < best.cpu ? again : best;
        }
        print(best);
    }

    static void print(Run run) {
        System.out.println(String.format(
                Locale.ROOT,
                "{\"events\": %d, \"matches\": %d, \"cpu\": %.6f, \"wall\": %.6f, \"note\": \"%s\"}",
                run.events, run.matches, run.cpu, run.wall, run.note));
    }

    private static Run run(Job job, Deploy deploy, Tally tally, double budget) throws Exception {
        System.gc();
        tally.clear();
        int done = 0;
        long found = 0;
        String note = "";
        try (Engine engine = deploy.deploy(tally)) {
            double cpu = Job.cpuSeconds();
            long wall = System.nanoTime();
            int next = 0;
            try {
                while (next < job.events) {
                    engine.push(next++);
                    if (next % CHECK_EVERY == 0 || next == job.events) {
                        done = next;
                        found = tally.matches;
                        if (Job.cpuSeconds() - cpu > budget) {
                            break;
                        }
                    }
                }
            } catch (OutOfMemoryError error) {
                note = "out of memory";
            }
            double spent = Job.cpuSeconds() - cpu;
            double elapsed = (System.nanoTime() - wall) / 1e9;
            if (!note.isEmpty()) { // later events than the last that was checked have left their marks in the tally
                return new Run(done, job.isCounted ? -1 : found, spent, elapsed, note);
            }
            return new Run(done, tally.total(done), spent, elapsed, note);
        }
    }
}
