import java.util.BitSet;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * What one member received in one trial. Each sending thread of each member is a stream of its own, numbered from 0.
 * JGroups delivers the messages of one sender one after the other, so a stream needs no lock.
 */
final class Counts {
    /** What came of one sending thread. */
    private static final class Stream {
        private final BitSet missing = new BitSet();
        private long next, messages, duplicates, outOfOrder, lastNs, gapNs;
        private boolean complete;

        void add(long number) {
            messages++;
            if (number == next)
                next++;
            else if (number > next) {                           // the ones between are lost, unless they come late
                missing.set((int) next, (int) number);
                next = number + 1;
            } else if (missing.get((int) number)) {
                missing.clear((int) number);
                outOfOrder++;
            } else
                duplicates++;
        }

        void seenAt(long now) {
            if (lastNs != 0)
                gapNs = Math.max(gapNs, now - lastNs);
            lastNs = now;
        }
    }

    private final int trial;
    private final long each;
    private final boolean gaps;
    private final AtomicInteger open;
    private final AtomicInteger strays = new AtomicInteger();
    private final Map<Object, Stream[]> streams = new ConcurrentHashMap<>();
    private volatile long doneNs;

    /** @param streams how many streams of `each` messages there will be; gaps: whether to time every delivery */
    Counts(int trial, int streams, long each, boolean gaps) {
        this.trial = trial;
        this.each = each;
        this.gaps = gaps;
        this.open = new AtomicInteger(streams);
    }

    void add(Object src, long tag) {
        if (Tag.trial(tag) != trial) {
            strays.incrementAndGet();
            return;
        }
        Stream stream = stream(src, Tag.thread(tag));
        stream.add(Tag.number(tag));
        if (gaps)
            stream.seenAt(System.nanoTime());
        if (stream.next == each && !stream.complete && stream.missing.isEmpty()) {
            stream.complete = true;
            if (open.decrementAndGet() == 0) {
                doneNs = System.nanoTime();
                tell("counted");
            }
        }
    }

    private Stream stream(Object src, int thread) {
        Stream[] known = streams.get(src);
        if (known == null)
            known = streams.computeIfAbsent(src, ignored -> new Stream[Tag.MAX_THREADS]);
        if (known[thread] == null)
            known[thread] = new Stream();
        return known[thread];
    }

    void tell(String event) {
        long messages = 0, distinct = 0, duplicates = 0, outOfOrder = 0, lastNs = 0, gapNs = 0;
        for (Stream[] known : streams.values())
            for (Stream stream : known) {
                if (stream == null)
                    continue;
                messages += stream.messages;
                distinct += stream.next - stream.missing.cardinality();
                duplicates += stream.duplicates;
                outOfOrder += stream.outOfOrder;
                lastNs = Math.max(lastNs, stream.lastNs);
                gapNs = Math.max(gapNs, stream.gapNs);
            }
        Driver.tell("{\"event\":\"%s\",\"trial\":%d,\"messages\":%d,\"distinct\":%d,\"duplicates\":%d,"
                    + "\"out_of_order\":%d,\"strays\":%d,\"done_ns\":%d,\"last_ns\":%d,\"gap_ns\":%d}", event, trial,
                    messages, distinct, duplicates, outOfOrder, strays.get(), doneNs, lastNs, gapNs);
    }
}
