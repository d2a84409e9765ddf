// Counts its own calls, by function, where tracers go wrong: signals in the middle of everything, exceptions
// through many frames, tail calls, siglongjmp out of a handler, coroutines. What a tracer counts must be equal.
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sys/time.h>
#include <ucontext.h>

#define PLAIN __attribute__((no_instrument_function))
#define APART __attribute__((noinline, noipa))

static volatile long n_small, n_middle, n_handler, n_inner, n_thrower, n_catcher, n_first, n_second, n_jumper, n_co;
static volatile long sink;
static sigjmp_buf again;
static ucontext_t home, away;

extern "C" {
APART void small(long x) { n_small = n_small + 1, sink = sink + x; }
APART void middle(long x) {
    n_middle = n_middle + 1;
    small(x);
    small(x + 1);
}
APART void inner(long x) { n_inner = n_inner + 1, sink = sink + x; }
APART void handler(int number) {
    n_handler = n_handler + 1;
    inner(number);
    inner(number);
}
APART void thrower(long depth) {
    n_thrower = n_thrower + 1;
    if (depth == 0) throw depth;
    thrower(depth - 1);
    sink = sink + depth;
}
APART void catcher(long depth) {
    n_catcher = n_catcher + 1;
    try {
        thrower(depth);
    } catch (long) {
        small(depth);
    }
}
APART void second(long x) { n_second = n_second + 1, sink = sink + x; }
APART void first(long x) {
    n_first = n_first + 1;
    second(x);  // A tail call where the compiler optimizes.
}
APART void jumper(long x) {
    n_jumper = n_jumper + 1;
    small(x);
    siglongjmp(again, 1);
}
APART void co(void) {
    n_co = n_co + 1;
    for (int i = 0; i < 50; i++) {
        small(i);
        swapcontext(&away, &home);
    }
}
}

PLAIN int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 300000;
    struct sigaction action = {};
    action.sa_handler = handler;
    sigaction(SIGALRM, &action, nullptr);
    itimerval timer = {{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &timer, nullptr);
    for (long i = 0; i < rounds; i++) middle(i);
    for (long i = 0; i < 300; i++) catcher(i % 20);
    for (long i = 0; i < 1000; i++) first(i);
    for (volatile long i = 0; i < 500; i = i + 1)
        if (sigsetjmp(again, 1) == 0) jumper(i);
    static char stack[256 << 10];
    getcontext(&away);
    away.uc_stack.ss_sp = stack, away.uc_stack.ss_size = sizeof stack, away.uc_link = &home;
    makecontext(&away, co, 0);
    for (int i = 0; i < 51; i++) {
        swapcontext(&home, &away);
        middle(i);
    }
    timer = {};
    setitimer(ITIMER_REAL, &timer, nullptr);
    printf("small %ld\nmiddle %ld\nhandler %ld\ninner %ld\nthrower %ld\ncatcher %ld\nfirst %ld\nsecond %ld\njumper %ld\nco %ld\n",
           n_small, n_middle, n_handler, n_inner, n_thrower, n_catcher, n_first, n_second, n_jumper, n_co);
}
