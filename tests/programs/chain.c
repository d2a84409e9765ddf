// A chain of waits with known terms: main waits on a condition for worker, worker for feeder, feeder computes and sleeps.
//
// build chain: -O1 -g -pthread
//
//   chain threads|process|epoll|pool|convoy|inversion|hidden [ITEMS [CRUNCH_US [SLEEP_US]]]
//
// worker waits for feeder in a pipe (threads; process: feeder is a child process) or in epoll on an eventfd (epoll).
// pool: three workers wait for feeder's items in turn. convoy: workers hold one lock around crunch() in turn.
// inversion: main waits for a lock whose holder, low, computes, and mid computes on the same CPU with a higher priority;
// hidden: as threads, but mid computes on worker's CPU with a higher priority while feeder computes on another: nobody is
// delayed by that. Both exit with 77 if they may not set priorities.
// At the end it prints its own measurement, ns: wall, crunch, sleep (of feeder, of all workers for convoy, of low for
// inversion), meddle (of mid), and CPU time in crunch.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int items = 40, is_epoll, is_hidden, workers = 1;
static long crunch_us = 15000, sleep_us = 10000;
static int to_worker[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static int results;
static volatile uint64_t sink;

// Times of the feeder, which may be another process.
static struct times {
    _Atomic uint64_t crunch_ns, crunch_cpu_ns, sleep_ns, meddle_ns;
    sem_t taken;
} *times;

static uint64_t clock_ns(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec * 1000000000ull + at.tv_nsec;
}

static uint64_t now(void) { return clock_ns(CLOCK_MONOTONIC); }

__attribute__((noinline)) static void crunch(long us) {
    uint64_t began = now(), ran = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    while (now() < began + us * 1000)
        for (int i = 0; i < 2000; i++)
            sink = sink * 31 + i;
    times->crunch_cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - ran;
    times->crunch_ns += now() - began;
}

__attribute__((noinline)) static void rest(long us) {
    uint64_t began = now();
    usleep(us);
    times->sleep_ns += now() - began;
}

__attribute__((noinline)) static void feed(void) {
    for (int i = 0; i < items / workers * workers; i++) {
        uint64_t one = 1;
        crunch(crunch_us);
        rest(sleep_us);
        if (write(to_worker[1], &one, sizeof one) != sizeof one)
            abort();
        // Nothing overlaps: whoever is delayed, the terms stay those of one chain.
        sem_wait(&times->taken);
    }
}

static void *feeder(void *none) {
    prctl(PR_SET_NAME, "feeder");
    feed();
    return none;
}

__attribute__((noinline)) static void take_item(int epoll) {
    uint64_t item;
    struct epoll_event event;
    if (is_epoll && epoll_wait(epoll, &event, 1, -1) != 1)
        abort();
    if (read(to_worker[0], &item, sizeof item) != sizeof item)
        abort();
}

__attribute__((noinline)) static void hand_on(void) {
    pthread_mutex_lock(&lock);
    results++;
    pthread_cond_signal(&came);
    pthread_mutex_unlock(&lock);
}

static sem_t asked, locked, started;

static void *worker(void *none) {
    prctl(PR_SET_NAME, "worker");
    int epoll = is_epoll ? epoll_create1(0) : -1;
    struct epoll_event event = {.events = EPOLLIN};
    if (is_epoll)
        epoll_ctl(epoll, EPOLL_CTL_ADD, to_worker[0], &event);
    for (int i = 0; i < items / workers; i++) {
        if (is_hidden)
            sem_post(&started);
        take_item(epoll);
        hand_on();
    }
    return none;
}

static pthread_mutex_t shared = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void under_lock(void) {
    pthread_mutex_lock(&shared);
    crunch(crunch_us);
    pthread_mutex_unlock(&shared);
}

static void *driver(void *none) {
    prctl(PR_SET_NAME, "driver");
    for (int i = 0; i < items; i++)
        under_lock();
    return none;
}

__attribute__((noinline)) static void wait_for_results(int wanted) {
    for (int i = 1; i <= wanted; i++) {
        pthread_mutex_lock(&lock);
        while (results < i)
            pthread_cond_wait(&came, &lock);
        pthread_mutex_unlock(&lock);
        sem_post(&times->taken);
    }
}

static void run_convoy(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, driver, 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
}

__attribute__((noinline)) static void meddle(long us) {
    uint64_t began = now();
    while (now() < began + us * 1000)
        for (int i = 0; i < 2000; i++)
            sink = sink * 31 + i;
    times->meddle_ns += now() - began;
}

static void *low(void *none) {
    prctl(PR_SET_NAME, "low");
    for (int i = 0; i < items; i++) {
        sem_wait(&asked);
        pthread_mutex_lock(&shared);
        sem_post(&locked);
        // By its CPU time: mid's time comes on top.
        for (uint64_t until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + crunch_us * 1000;
             clock_ns(CLOCK_THREAD_CPUTIME_ID) < until;)
            crunch(200);
        pthread_mutex_unlock(&shared);
    }
    return none;
}

static void *mid(void *none) {
    prctl(PR_SET_NAME, "mid");
    for (int i = 0; i < items; i++) {
        sem_wait(&started);
        meddle(sleep_us);
    }
    return none;
}

// Gives the calling thread, and those that it makes, this priority on one CPU.
static void set_priority(int priority, int cpu) {
    struct sched_param param = {.sched_priority = priority};
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) || sched_setscheduler(0, SCHED_FIFO, &param))
        exit(77);
}

__attribute__((noinline)) static void needs_lock(void) {
    sem_post(&asked);
    sem_wait(&locked);
    sem_post(&started);
    pthread_mutex_lock(&shared);
    pthread_mutex_unlock(&shared);
}

static void run_inversion(void) {
    pthread_t threads[2];
    set_priority(1, 0);
    pthread_create(&threads[0], 0, low, 0);
    set_priority(2, 0);
    pthread_create(&threads[1], 0, mid, 0);
    set_priority(3, 0);
    for (int i = 0; i < items; i++)
        needs_lock();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
}

static void run_hidden(void) {
    pthread_t threads[3];
    if (pipe(to_worker) != 0)
        abort();
    set_priority(1, 0);
    pthread_create(&threads[0], 0, worker, 0);
    set_priority(2, 0);
    pthread_create(&threads[1], 0, mid, 0);
    set_priority(2, 1);
    pthread_create(&threads[2], 0, feeder, 0);
    set_priority(3, 1);
    wait_for_results(items);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
}

static void run_chain(int in_process) {
    pthread_t threads[4];
    if (is_epoll ? (to_worker[0] = to_worker[1] = eventfd(0, EFD_SEMAPHORE)) < 0 : pipe(to_worker) != 0)
        abort();
    pid_t child = 0;
    if (in_process && (child = fork()) == 0) {
        feeder(0);
        _exit(0);
    }
    for (int i = 0; i < workers; i++)
        pthread_create(&threads[i], 0, worker, 0);
    if (!in_process)
        pthread_create(&threads[workers], 0, feeder, 0);
    wait_for_results(items / workers * workers);
    for (int i = 0; i < workers + !in_process; i++)
        pthread_join(threads[i], 0);
    if (child)
        waitpid(child, 0, 0);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "threads";
    if (argc > 2)
        items = atoi(argv[2]);
    if (argc > 3)
        crunch_us = atol(argv[3]);
    if (argc > 4)
        sleep_us = atol(argv[4]);
    times = mmap(0, sizeof *times, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_init(&times->taken, 1, 0);
    uint64_t began = now();
    is_epoll = !strcmp(mode, "epoll");
    is_hidden = !strcmp(mode, "hidden");
    workers = strcmp(mode, "pool") ? 1 : 3;
    if (!strcmp(mode, "convoy"))
        run_convoy();
    else if (!strcmp(mode, "inversion"))
        run_inversion();
    else if (is_hidden)
        run_hidden();
    else
        run_chain(!strcmp(mode, "process"));
    printf("wall %lu crunch %lu sleep %lu meddle %lu crunch-cpu %lu\n", (unsigned long)(now() - began),
           (unsigned long)times->crunch_ns, (unsigned long)times->sleep_ns, (unsigned long)times->meddle_ns,
           (unsigned long)times->crunch_cpu_ns);
    return 0;
}
