/** Methods with known shares of CPU time, by the thread's own clock, and naps between them. */
public class Split {
    static volatile long sink;
    static final java.lang.management.ThreadMXBean BEAN = java.lang.management.ManagementFactory.getThreadMXBean();
    static long burn(long ns) {
        long end = BEAN.getCurrentThreadCpuTime() + ns, x = 0;
        while (BEAN.getCurrentThreadCpuTime() < end) for (int i = 0; i < 3000; i++) x = x * 31 + i;
        return x;
    }
    static long alpha(long ns) { return burn(ns * 5) + 1; }
    static long beta(long ns) { return burn(ns * 3) + 2; }
    static long gamma(long ns) { return burn(ns * 2) + 3; }
    static void nap(int ms) throws InterruptedException { Thread.sleep(ms); }
    public static void main(String[] a) throws Exception {
        long end = System.nanoTime() + Long.parseLong(a[0]) * 1_000_000, naps = 0, started = System.nanoTime();
        for (int i = 1; System.nanoTime() < end; i++) {
            sink += alpha(50_000) + beta(50_000) + gamma(50_000);
            if (i % 80 == 0) { long t = System.nanoTime(); nap(20); naps += System.nanoTime() - t; }
        }
        System.out.println("napped " + naps / 1_000_000 + " of " + (System.nanoTime() - started) / 1_000_000 + " ms");
    }
}
