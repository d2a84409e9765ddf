// Ways to leave functions that are not returns, each counted by the program: thread exit and cancellation with handlers
// that run on the way, backtraces in between, siglongjmp out of a signal handler.
#define _GNU_SOURCE
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLAIN __attribute__((no_instrument_function))
#define ALONE __attribute__((noinline, noipa))

static long n_down, n_exiting, n_cleanup, n_waiting, n_deep, n_many, n_handler, n_loop, n_after;
static sigjmp_buf back;

ALONE void cleanup(void *argument) { n_cleanup++; (void)argument; }
ALONE long many(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, double x) {
    n_many++;
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + (long)x;
}
ALONE long down(long n) {
    n_down++;
    pthread_cleanup_push(cleanup, NULL);
    if (n == 0)
        pthread_exit((void *)7);
    down(n - 1);
    pthread_cleanup_pop(0);
    return n + 1;
}
ALONE void *exiting(void *argument) { n_exiting++; return (void *)down((long)argument); }
ALONE void *waiting(void *argument) {
    n_waiting++;
    pthread_cleanup_push(cleanup, NULL);
    for (;;)
        pause();
    pthread_cleanup_pop(0);
    return argument;
}
ALONE int deep(int n) {
    n_deep++;
    void *frames[64];
    int seen = n == 0 ? backtrace(frames, 64) : deep(n - 1);
    __asm__ volatile("" : "+r"(seen));
    return seen;
}
ALONE void handler(int number) { n_handler++; (void)number; siglongjmp(back, 1); }
ALONE void loop(void) { n_loop++; raise(SIGUSR1); }
ALONE void after(void) { n_after++; }
PLAIN int main(void) {
    for (long n = 0; n < 20; n++) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, exiting, (void *)n);
        pthread_join(thread, &result);
        if (result != (void *)7) return 1;
        pthread_create(&thread, NULL, waiting, NULL);
        usleep(2000);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        if (result != PTHREAD_CANCELED) return 2;
    }
    int least = 1000;
    for (int n = 0; n < 20; n++) {
        int seen = deep(n);
        if (seen - n < least) least = seen - n;
    }
    if (least < 2) return 3;
    signal(SIGUSR1, handler);
    for (int n = 0; n < 30; n++) {
        if (sigsetjmp(back, 1) == 0) loop();
        after();
    }
    long sum = 0;
    for (long n = 0; n < 10; n++) sum += many(n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 2.5);
    if (sum != 10 * (2+6+12+20+30+42+56+72+90+2) + 45) return 4;
    printf("down %ld\nexiting %ld\ncleanup %ld\nwaiting %ld\ndeep %ld\nmany %ld\nhandler %ld\nloop %ld\nafter %ld\n", n_down, n_exiting, n_cleanup, n_waiting, n_deep, n_many, n_handler, n_loop, n_after);
    return 0;
}
