/** Methods that take 2 : 1 of the CPU time, by steps that wait for one another; the compiler inlines both. */
public class Inlined {
    static volatile long sink;
    static long alpha(long x) {
        x = (x ^ (x >>> 7)) * 31; x = (x ^ (x >>> 9)) * 33; x = (x ^ (x >>> 11)) * 35; x = (x ^ (x >>> 5)) * 37;
        x = (x ^ (x >>> 7)) * 39; x = (x ^ (x >>> 9)) * 41; x = (x ^ (x >>> 11)) * 43; x = (x ^ (x >>> 5)) * 45;
        return x;
    }
    static long beta(long x) {
        x = (x ^ (x >>> 7)) * 51; x = (x ^ (x >>> 9)) * 53; x = (x ^ (x >>> 11)) * 55; x = (x ^ (x >>> 5)) * 57;
        return x;
    }
    static long work(int count) {
        long x = count;
        for (int i = 0; i < count; i++) x = beta(alpha(x));
        return x;
    }
    public static void main(String[] a) {
        long end = System.nanoTime() + Long.parseLong(a[0]) * 1_000_000;
        while (System.nanoTime() < end) sink += work(100_000);
    }
}
