import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/** The first eight bytes of every message, big-endian: kind (8 bits), thread (8), trial (8), number (40). */
final class Tag {
    static final int BYTES = 8;
    static final int FLOOD = 1, REQUEST = 2, ANSWER = 3;
    static final int MAX_THREADS = 256;
    private static final int KIND_SHIFT = 56, THREAD_SHIFT = 48, TRIAL_SHIFT = 40;
    private static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

    private Tag() {
    }

    static long of(int kind, int thread, int trial, long number) {
        return (long) kind << KIND_SHIFT | (long) thread << THREAD_SHIFT | (long) trial << TRIAL_SHIFT | number;
    }

    static byte[] message(long tag, int size) {
        byte[] payload = new byte[Math.max(size, BYTES)];
        LONG.set(payload, 0, tag);
        return payload;
    }

    static long read(byte[] payload, int offset) {
        return (long) LONG.get(payload, offset);
    }

    static int kind(long tag) {
        return (int) (tag >>> KIND_SHIFT);
    }

    static int thread(long tag) {
        return (int) (tag >>> THREAD_SHIFT) & 0xff;
    }

    static int trial(long tag) {
        return (int) (tag >>> TRIAL_SHIFT) & 0xff;
    }

    static long number(long tag) {
        return tag & (1L << TRIAL_SHIFT) - 1;
    }

    static long withKind(long tag, int kind) {
        return tag & (1L << KIND_SHIFT) - 1 | (long) kind << KIND_SHIFT;
    }
}
