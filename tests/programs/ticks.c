// Counts timer signals and interrupted system calls while four threads compute and wait: a recorder must change neither.
// `ticks SECONDS`: prints both counts and exits with 7. A thread computes in `compute`, and waits for epoll in `pause_in`.
// build ticks: -O2 -g -pthread
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

static volatile long ticks;
static long interrupted;

static void tick(int number) {
    (void)number;
    ticks++;
}

__attribute__((noinline)) static void compute(void) {
    volatile long x = 0;
    for (int i = 0; i < 1000000; i++) x += i;
}

__attribute__((noinline)) static void pause_in(int events) {
    struct epoll_event event;
    if (epoll_wait(events, &event, 1, 1) < 0 && errno == EINTR) __atomic_add_fetch(&interrupted, 1, __ATOMIC_RELAXED);
}

static void *work(void *seconds) {
    int events = epoll_create1(0);
    for (time_t end = time(NULL) + (long)seconds; time(NULL) < end;) {
        compute();
        pause_in(events);
    }
    return NULL;
}

int main(int argc, char **argv) {
    long seconds = argc > 1 ? atol(argv[1]) : 1;
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void *)seconds);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    struct itimerspec often = {{0, 10000000}, {0, 10000000}};
    timer_settime(timer, 0, &often, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("ticks %ld interrupted %ld\n", ticks, interrupted);
    return 7;
}
