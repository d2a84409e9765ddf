// Requests of known kinds, each timed by the program itself: it computes, sleeps, waits for a lock that another thread
// holds, and asks another process by a pipe.
//
// build requests: -O1 -g -pthread
//
//   requests [COUNT [MODE]]
//
// MODE is a letter for each kind in turn, `cslp` without one: c computes 6 ms, s sleeps 8 ms, l waits for a lock
// whose holder computes 10 ms, p asks another process, which computes 7 ms. r: a request that calls itself twice. j and e:
// left by longjmp, and by the end of its thread. t: computes in a thread of its own. w: waits 200 us fifty times.
// At the end it prints, for each kind, `KIND count total_ns on_cpu_ns waited_ns`. on_cpu_ns is the thread's CPU time,
// waited_ns the time in the call that waits, without the kernel's own count of time in the run queue.
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noipa))

struct kind {
    uint64_t count, total_ns, cpu_ns, waited_ns;
} kinds[128];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t held;
static int ask[2], answer[2];
static jmp_buf out;
static volatile uint64_t sink;

static uint64_t clock_ns(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec * 1000000000ull + at.tv_nsec;
}

NOINLINE static void compute(uint64_t us) {
    uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + us * 1000;
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 2000; i++)
            sink = sink * 31 + i;
}

NOINLINE static void hold(void) {
    pthread_mutex_lock(&lock);
    pthread_barrier_wait(&held);
    compute(10000);
    pthread_mutex_unlock(&lock);
}

static void *holder(void *none) {
    for (;;) {
        pthread_barrier_wait(&held);
        hold();
    }
    return none;
}

NOINLINE static void answers(void) {
    char byte;
    while (read(ask[0], &byte, 1) == 1) {
        compute(7000);
        if (write(answer[1], &byte, 1) != 1)
            abort();
    }
}

static uint64_t queued_ns(void) {
    unsigned long ran = 0, queued = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    if (file && fscanf(file, "%lu %lu", &ran, &queued) != 2)
        queued = 0;
    if (file)
        fclose(file);
    return queued;
}

NOINLINE static uint64_t fetch(int kind) {
    uint64_t queued = kind == 'w' ? 0 : queued_ns(), began = clock_ns(CLOCK_MONOTONIC);
    struct timespec pause = {0, kind == 'w' ? 200000 : 8000000};
    char byte = 0;
    if (kind == 'l') {
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
    } else if (kind == 'p') {
        if (write(ask[1], &byte, 1) != 1 || read(answer[0], &byte, 1) != 1)
            abort();
    } else {
        nanosleep(&pause, 0);
    }
    uint64_t took = clock_ns(CLOCK_MONOTONIC) - began;
    return took - (kind == 'w' ? 0 : queued_ns() - queued);
}

NOINLINE void handle(int kind, int depth) {
    uint64_t began = clock_ns(CLOCK_MONOTONIC), ran = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    struct kind *of = &kinds[kind];
    if (kind == 'c' || kind == 't')
        compute(6000);
    else if (kind == 'r' && depth < 2)
        handle(kind, depth + 1);
    else if (kind == 'r')
        compute(1000);
    else if (kind == 'j')
        longjmp(out, 1);
    else if (kind == 'e')
        pthread_exit(0);
    else
        for (int i = 0; i < (kind == 'w' ? 50 : 1); i++)
            of->waited_ns += fetch(kind);
    if (depth > 0)
        return;
    of->count++;
    of->cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - ran;
    of->total_ns += clock_ns(CLOCK_MONOTONIC) - began;
}

static void *in_thread(void *kind) {
    handle(*(int *)kind, 0);
    return 0;
}

NOINLINE static void serve(int kind) {
    pthread_t thread;
    if (kind == 'l') {
        pthread_barrier_wait(&held);
        pthread_barrier_wait(&held);
    }
    if (kind == 'e' || kind == 't') {
        if (pthread_create(&thread, 0, in_thread, &kind) || pthread_join(thread, 0))
            abort();
    } else if (kind != 'j' || setjmp(out) == 0) {
        handle(kind, 0);
    }
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 10;
    const char *mode = argc > 2 ? argv[2] : "cslp";
    pthread_t thread;
    if (pipe(ask) || pipe(answer))
        abort();
    pid_t child = fork();
    if (child == 0) {
        close(ask[1]);
        answers();
        _exit(0);
    }
    pthread_barrier_init(&held, 0, 2);
    pthread_create(&thread, 0, holder, 0);
    for (int i = 0; i < count; i++)
        for (const char *kind = mode; *kind; kind++)
            serve(*kind);
    close(ask[1]);
    waitpid(child, 0, 0);
    for (int kind = 0; kind < 128; kind++) {
        struct kind *of = &kinds[kind];
        if (of->count)
            printf("%c %lu %lu %lu %lu\n", kind, (unsigned long)of->count, (unsigned long)of->total_ns,
                   (unsigned long)of->cpu_ns, (unsigned long)of->waited_ns);
    }
    return 0;
}
