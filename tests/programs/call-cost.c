// Tells what a call costs: the least CPU time per call of five rounds of a function that does nothing.
// build call-cost: -O2
// build call-cost-pg: -O2 -pg
// build call-cost-fentry: -O2 -pg -mfentry
// build call-cost-patchable: -O2 -fpatchable-function-entry=5
// build call-cost-instrument: -O2 -finstrument-functions
//
// call-cost-… [CALLS [THREADS]]
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PLAIN __attribute__((no_instrument_function, patchable_function_entry(0)))
enum { ROUNDS = 5 };

static long calls = 1000000;

PLAIN static double cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

__attribute__((noinline, noipa)) long leaf(long x) { return x * 3 + 1; }

// Called once: the only function recorded when nothing of importance is chosen.
__attribute__((noinline, noipa)) void cold(void) { __asm__ volatile(""); }

PLAIN static void *work(void *best) {
    long sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double start = cpu_ns();
        for (long i = 0; i < calls; i++) sum += leaf(i);
        double each = (cpu_ns() - start) / calls;
        if (round == 0 || each < *(double *)best) *(double *)best = each;
    }
    return (void *)sum;
}

PLAIN int main(int argc, char **argv) {
    int threads = argc > 2 ? atoi(argv[2]) : 1;
    if (argc > 1) calls = atol(argv[1]);
    cold();
    pthread_t ids[64];
    double best[64];
    for (int i = 0; i < threads && i < 64; i++) pthread_create(&ids[i], NULL, work, &best[i]);
    double sum = 0;
    for (int i = 0; i < threads && i < 64; i++) pthread_join(ids[i], NULL), sum += best[i];
    printf("%.2f ns per call\n", sum / threads);
    return 0;
}
