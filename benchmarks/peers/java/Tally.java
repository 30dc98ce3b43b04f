import java.util.Arrays;

/**
 * What an engine found: the number of matches or, where a count is asked for, the sum of the live counts over all
 * triggers. A match of a and c is live at the triggers from c's on that come before a's window ends.
 */
final class Tally {
    private final Stream stream;
    private final boolean isCounted;
    private final int[] until; // for an A, the distinct times of C before its window ends
    private final int[] nth; // for an event, the distinct times of C before its own
    private final long[] begun; // matches by their A
    private long before;
    long matches;

    Tally(Job job) {
        stream = job.stream;
        isCounted = job.isCounted;
        until = new int[isCounted ? stream.size : 0];
        nth = new int[isCounted ? stream.size : 0];
        begun = new long[isCounted ? stream.size : 0];
        if (isCounted) {
            long[] triggers = new long[stream.size];
            int count = 0;
            for (int i = 0; i < stream.size; i++) {
                if (stream.type[i] == 2 && (count == 0 || triggers[count - 1] < stream.ts[i])) {
                    triggers[count++] = stream.ts[i];
                }
            }
            for (int i = 0, low = 0, high = 0; i < stream.size; i++) {
                while (low < count && triggers[low] < stream.ts[i]) {
                    low++;
                }
                while (high < count && triggers[high] < stream.ts[i] + job.window) {
                    high++;
                }
                nth[i] = low;
                until[i] = high;
            }
        }
    }

    void clear() {
        matches = 0;
        before = 0;
        Arrays.fill(begun, 0);
    }

    /** Take in a match by the places of its first and last event in the stream. */
    void add(int a, int c) {
        matches++;
        if (isCounted) {
            begun[a]++;
            before += nth[c];
        }
    }

    /** What was found in the first events, if these are all that were looked at. */
    long total(int events) {
        if (!isCounted) {
            return matches;
        }
        int triggers = 0;
        for (int i = events - 1; i >= 0; i--) {
            if (stream.type[i] == 2) {
                triggers = nth[i] + 1;
                break;
            }
        }
        long sum = -before;
        for (int i = 0; i < events; i++) {
            sum += begun[i] * Math.min(until[i], triggers);
        }
        return sum;
    }
}
