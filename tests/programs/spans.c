// build spans: -O2 -g -fno-pie -no-pie
// Knows how long its calls took: naps and spins of given lengths, timed around each call, printed as
// `name count total_ns`. With an argument it goes on for so many seconds.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

__attribute__((noinline, noipa)) void nap(long ns) {
    struct timespec t = {0, ns};
    nanosleep(&t, NULL);
}

__attribute__((noinline, noipa)) void spin(long ns) {
    for (long long end = now() + ns; now() < end;)
        ;
}

static long long timed(void (*what)(long), long ns) {
    long long start = now();
    what(ns);
    return now() - start;
}

int main(int argc, char **argv) {
    long long naps = 0, spins = 0, end = now() + (argc > 1 ? atoll(argv[1]) : 0) * 1000000000LL;
    int count = 0;
    do {
        for (int i = 0; i < 20; i++, count++) {
            naps += timed(nap, 2000000);
            spins += timed(spin, 3000000);
        }
    } while (now() < end);
    printf("nap %d %lld\nspin %d %lld\n", count, naps, count, spins);
    return 0;
}
