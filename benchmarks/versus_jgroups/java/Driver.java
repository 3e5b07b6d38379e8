import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.locks.LockSupport;

/**
 * One JGroups member as a process: `Driver STACK CLUSTER NAME`. Commands come in on stdin, a line each, events go out
 * on stdout, a JSON object a line; both are described in ../peer.py, which is the same for jgroups_py. What depends on
 * the version of JGroups is in Binding.java, of which there is one for each API.
 */
public final class Driver {
    /** What is needed of a version of JGroups. Addresses are opaque here. */
    interface Group {
        void connect(String cluster) throws Exception;

        void send(Object dest, byte[] payload, boolean outOfBand) throws Exception;

        /** In view order. */
        List<?> members();

        Object self();

        void close();
    }

    private static final long ANSWER_TIMEOUT_NS = 5_000_000_000L;
    private static final long CLOSE_TIMEOUT_MS = 3000;
    private static final long TICK_NS = 500_000;
    private static final PrintStream EVENTS = new PrintStream(new FileOutputStream(FileDescriptor.out), true);

    private final Group group;
    private volatile Counts counts = new Counts(0, 0, 0, false);
    private volatile Requester[] requesters = {};
    private volatile boolean singly;                            // messages are received one by one, not in batches

    private Driver(String stack, String name) throws Exception {
        group = new Binding(this, stack, name);
    }

    public static void main(String[] args) throws Exception {
        System.setOut(System.err);                              // JGroups prints too; stdout is for events only
        try {
            Driver driver = new Driver(args[0], args[2]);
            driver.group.connect(args[1]);
            tell("{\"event\":\"ready\",\"pid\":%d,\"ns\":%d}", ProcessHandle.current().pid(), System.nanoTime());
            driver.viewed();
            driver.obeyAll();
            Thread closing = new Thread(driver.group::close);
            closing.setDaemon(true);
            closing.start();
            closing.join(CLOSE_TIMEOUT_MS);
        } catch (Exception error) {
            error.printStackTrace();
        } finally {
            Runtime.getRuntime().halt(0);                       // whatever threads are stuck
        }
    }

    static synchronized void tell(String format, Object... values) {
        EVENTS.println(String.format(format, values));
    }

    private static void failed(Exception error) {
        String text = error.toString().replaceAll("[^ -~]|[\"\\\\]", " ");
        tell("{\"event\":\"error\",\"message\":\"%s\"}", text);
    }

    // --- what the binding calls -------------------------------------------------------------------------------------

    void viewed() {
        tell("{\"event\":\"view\",\"members\":%d,\"ns\":%d}", group.members().size(), System.nanoTime());
    }

    void received(Object src, byte[] payload, int offset, int length, boolean outOfBand) {
        long tag = Tag.read(payload, offset);
        switch (Tag.kind(tag)) {
            case Tag.FLOOD -> counts.add(src, tag);
            case Tag.REQUEST -> answer(src, tag, length, outOfBand);
            case Tag.ANSWER -> answered(tag);
            default -> tell("{\"event\":\"error\",\"message\":\"a message of unknown kind\"}");
        }
    }

    private void answered(long tag) {
        Requester[] all = requesters;
        if (Tag.thread(tag) < all.length)
            all[Tag.thread(tag)].answered(Tag.withKind(tag, Tag.REQUEST));
    }

    private void answer(Object dest, long tag, int length, boolean outOfBand) {
        try {
            group.send(dest, Tag.message(Tag.withKind(tag, Tag.ANSWER), length), outOfBand);
        } catch (Exception error) {
            failed(error);
        }
    }

    // --- commands ---------------------------------------------------------------------------------------------------

    private void obeyAll() throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null && !line.equals("leave"); line = commands.readLine()) {
            String[] words = line.trim().split(" ");
            switch (words[0]) {
                case "count" -> count(words);
                case "tally" -> counts.tell("tally");
                case "flood" -> background(() -> flood(words));
                case "request" -> background(() -> request(words));
                default -> tell("{\"event\":\"error\",\"message\":\"unknown command %s\"}", words[0]);
            }
        }
    }

    private interface Work {
        void run() throws Exception;
    }

    private static Thread background(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Exception error) {
                failed(error);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    boolean singly() {
        return singly;
    }

    /** count TRIAL STREAMS EACH GAPS SINGLY */
    private void count(String[] words) {
        singly = words[5].equals("1");
        counts = new Counts(Integer.parseInt(words[1]), Integer.parseInt(words[2]), Long.parseLong(words[3]),
                            words[4].equals("1"));
        tell("{\"event\":\"counting\",\"trial\":%s}", words[1]);
    }

    /** flood TRIAL EACH SIZE RATE THREADS */
    private void flood(String[] words) throws Exception {
        int trial = Integer.parseInt(words[1]), size = Integer.parseInt(words[3]);
        long each = Long.parseLong(words[2]);
        double rate = Double.parseDouble(words[4]);
        List<Thread> threads = new ArrayList<>();
        long start = System.nanoTime();
        for (int thread = 0; thread < Integer.parseInt(words[5]); thread++) {
            long first = Tag.of(Tag.FLOOD, thread, trial, 0);
            threads.add(background(() -> floodOne(first, each, size, rate)));
        }
        for (Thread thread : threads)
            thread.join();
        tell("{\"event\":\"flooded\",\"trial\":%d,\"start_ns\":%d,\"end_ns\":%d}", trial, start, System.nanoTime());
    }

    private void floodOne(long first, long each, int size, double rate) throws Exception {
        long start = System.nanoTime();
        for (long number = 0; number < each; number++) {
            while (rate > 0 && number > (System.nanoTime() - start) / 1e9 * rate)
                LockSupport.parkNanos(TICK_NS);
            group.send(null, Tag.message(first + number, size), false);
        }
    }

    /** request TRIAL THREADS SECONDS SIZE OUT_OF_BAND TARGET, where TARGET is a place in the view or "others" */
    private void request(String[] words) throws Exception {
        int trial = Integer.parseInt(words[1]);
        long until = System.nanoTime() + (long) (Double.parseDouble(words[3]) * 1e9);
        Requester[] all = new Requester[Integer.parseInt(words[2])];
        for (int thread = 0; thread < all.length; thread++)
            all[thread] = new Requester(thread, trial, Integer.parseInt(words[4]), words[5].equals("1"), until,
                                        targets(words[6]));
        requesters = all;
        long start = System.nanoTime();
        for (Requester requester : all)
            requester.start();
        for (Requester requester : all)
            requester.join();
        long end = System.nanoTime();
        long[] took = Arrays.stream(all).flatMapToLong(Requester::took).sorted().toArray();
        long timeouts = Arrays.stream(all).mapToLong(requester -> requester.timeouts).sum();
        tell("{\"event\":\"requested\",\"trial\":%d,\"requests\":%d,\"timeouts\":%d,\"start_ns\":%d,\"end_ns\":%d,"
             + "\"p50_ns\":%d,\"p99_ns\":%d}", trial, took.length, timeouts, start, end, quantile(took, 0.5),
             quantile(took, 0.99));
    }

    private static long quantile(long[] sorted, double share) {
        return sorted.length == 0 ? 0 : sorted[Math.min(sorted.length - 1, (int) (sorted.length * share))];
    }

    private Object[] targets(String target) {
        List<?> members = group.members();
        if (target.equals("others"))
            return members.stream().filter(member -> !member.equals(group.self())).toArray();
        return new Object[] {members.get(Integer.parseInt(target))};
    }

    // --- requesters -------------------------------------------------------------------------------------------------

    /** Asks, waits for the answer, asks the next member. */
    private final class Requester extends Thread {
        private final long first;
        private final int thread, size;
        private final boolean outOfBand;
        private final long until;
        private final Object[] targets;
        private volatile long answered;                         // the tag of the request that was answered last
        private long[] took = new long[1 << 16];
        private int count;
        private long timeouts;

        Requester(int thread, int trial, int size, boolean outOfBand, long until, Object[] targets) {
            this.thread = thread;
            this.first = Tag.of(Tag.REQUEST, thread, trial, 0);
            this.size = size;
            this.outOfBand = outOfBand;
            this.until = until;
            this.targets = targets;
            setDaemon(true);
        }

        void answered(long tag) {
            answered = tag;
            LockSupport.unpark(this);
        }

        java.util.stream.LongStream took() {
            return Arrays.stream(took, 0, count);
        }

        @Override
        public void run() {
            try {
                int next = thread;                              // the threads do not all ask the same member first
                for (long number = 0; System.nanoTime() < until; number++)
                    ask(number, targets[next++ % targets.length]);
            } catch (Exception error) {
                failed(error);
            }
        }

        private void ask(long number, Object target) throws Exception {
            long start = System.nanoTime();
            group.send(target, Tag.message(first + number, size), outOfBand);
            while (answered != first + number) {
                long left = start + ANSWER_TIMEOUT_NS - System.nanoTime();
                if (left <= 0) {
                    timeouts++;
                    return;
                }
                LockSupport.parkNanos(this, left);
            }
            if (count == took.length)
                took = Arrays.copyOf(took, 2 * count);
            took[count++] = System.nanoTime() - start;
        }
    }
}
