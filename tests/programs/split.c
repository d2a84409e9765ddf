// Knows its own split: busy on the CPU, asleep, and waiting for a lock that another thread holds.
// build split: -O2 -g -pthread
//
// split [SECONDS]: main is busy for a third, naps for a third, waits for `holder`'s lock for a third, and prints
// the nanoseconds of each as measured by itself.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
static double third;

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void sleep_for(double seconds) {
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

__attribute__((noinline)) static void busy(void) {
    double end = now(CLOCK_THREAD_CPUTIME_ID) + third;
    volatile long work = 0;
    while (now(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 10000; i++) work += i;
}

__attribute__((noinline)) static void nap(void) { sleep_for(third); }

__attribute__((noinline)) static void wait_for_lock(void) {
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
}

static void *holder(void *arg) {
    (void)arg;
    pthread_setname_np(pthread_self(), "holder");
    pthread_mutex_lock(&lock);
    pthread_barrier_wait(&both);
    sleep_for(third);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static double timed(void (*part)(void)) {
    double start = now(CLOCK_MONOTONIC);
    part();
    return now(CLOCK_MONOTONIC) - start;
}

int main(int argc, char **argv) {
    third = (argc > 1 ? atof(argv[1]) : 3) / 3;
    pthread_barrier_init(&both, NULL, 2);
    double busy_s = timed(busy), nap_s = timed(nap);
    pthread_t id;
    pthread_create(&id, NULL, holder, NULL);
    pthread_barrier_wait(&both);
    double wait_s = timed(wait_for_lock);
    pthread_join(id, NULL);
    printf("busy_ns %.0f nap_ns %.0f wait_ns %.0f cpu_ns %.0f\n", busy_s * 1e9, nap_s * 1e9, wait_s * 1e9,
           now(CLOCK_PROCESS_CPUTIME_ID) * 1e9);
    return 0;
}
