// Counts its own calls while a signal's handler jumps out of whatever it interrupts, the recorder of a tracer as well.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

#define PLAIN __attribute__((no_instrument_function))
#define ALONE __attribute__((noinline, noipa))

static volatile long n_small, n_middle, n_handler;
static volatile long sink;
static sigjmp_buf back;

ALONE void small(long x) { n_small++, sink += x; }
ALONE void middle(long x) {
    n_middle++;
    small(x);
    small(x + 1);
}
ALONE void handler(int number) {
    n_handler++;
    (void)number;
    siglongjmp(back, 1);
}
PLAIN int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 200;
    volatile long at = 0;
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGALRM, &action, NULL);
    // Each jump out is followed by the next signal, until there were so many.
    sigsetjmp(back, 1);
    if (n_handler < rounds) {
        struct itimerval timer = {.it_value = {0, 100 + n_handler % 50}};
        setitimer(ITIMER_REAL, &timer, NULL);
        for (;;) middle(at++);
    }
    // What comes now is to be recorded whole.
    long small_before = n_small;
    for (long i = 0; i < 1000; i++) small(i);
    printf("small %ld\nmiddle %ld\nhandler %ld\n", n_small, n_middle, n_handler);
    return n_small - small_before != 1000;
}
