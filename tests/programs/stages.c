// A run in stages of known length: what is before and after one of them, and how many threads run in each.
//
// build stages: -O1 -g -pthread
//
//   stages path|together [ALONE_MS [OTHER_MS]]
//
// path: main calls prepare(), serve(), finish() in turn. In serve() it waits for cook, which computes and then sleeps.
// together: main computes in alone(), then it and a second thread, each on its own CPU, compute in together(). The
// program sets priorities to run undisturbed, and exits with 77 if it may not.
// At the end it prints its own measurement, ns: wall of prepare, serve, finish, and of mix and settle in serve;
// or wall of alone and together.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t sink[2];
static long alone_ms = 150, other_ms = 150;
static uint64_t mix_ns, settle_ns;

static uint64_t now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000ull + at.tv_nsec;
}

// Inline: each stage's samples are its own.
__attribute__((always_inline)) static inline void compute(long ms, int which) {
    for (uint64_t until = now() + ms * 1000000; now() < until;)
        for (int i = 0; i < 2000; i++)
            sink[which] = sink[which] * 31 + i;
}

__attribute__((noinline)) static void prepare(void) { compute(alone_ms, 0); }

__attribute__((noinline)) static void finish(void) { compute(other_ms / 2, 0); }

__attribute__((noinline)) static void mix(void) {
    uint64_t began = now();
    compute(alone_ms, 0);
    mix_ns = now() - began;
}

__attribute__((noinline)) static void settle(void) {
    uint64_t began = now();
    usleep(other_ms * 1000);
    settle_ns = now() - began;
}

static void *cook(void *none) {
    prctl(PR_SET_NAME, "cook");
    mix();
    settle();
    return none;
}

__attribute__((noinline)) static void serve(void) {
    pthread_t thread;
    pthread_create(&thread, 0, cook, 0);
    pthread_join(thread, 0);
}

// A priority above everything else, on one CPU.
static void set_priority(pthread_t thread, int cpu) {
    struct sched_param param = {.sched_priority = 1};
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    if (pthread_setaffinity_np(thread, sizeof cpus, &cpus) || pthread_setschedparam(thread, SCHED_FIFO, &param))
        exit(77);
}

static void run_path(void) {
    uint64_t began = now();
    prepare();
    uint64_t prepared = now();
    serve();
    uint64_t served = now();
    finish();
    printf("prepare %lu serve %lu finish %lu mix %lu settle %lu\n", (unsigned long)(prepared - began),
           (unsigned long)(served - prepared), (unsigned long)(now() - served), (unsigned long)mix_ns,
           (unsigned long)settle_ns);
}

static pthread_barrier_t both;

__attribute__((noinline)) static void alone(void) { compute(alone_ms, 1); }

__attribute__((noinline)) static void together(int which) { compute(other_ms, which); }

static void *second(void *none) {
    pthread_barrier_wait(&both);
    together(1);
    return none;
}

static void run_together(void) {
    pthread_t thread;
    pthread_barrier_init(&both, 0, 2);
    pthread_create(&thread, 0, second, 0);
    set_priority(thread, 1);
    set_priority(pthread_self(), 0);
    uint64_t began = now();
    alone();
    uint64_t split = now();
    pthread_barrier_wait(&both);
    together(0);
    pthread_join(thread, 0);
    printf("alone %lu together %lu\n", (unsigned long)(split - began), (unsigned long)(now() - split));
}

int main(int argc, char **argv) {
    if (argc > 2)
        alone_ms = atol(argv[2]);
    if (argc > 3)
        other_ms = atol(argv[3]);
    if (argc > 1 && !strcmp(argv[1], "together"))
        run_together();
    else
        run_path();
    return 0;
}
