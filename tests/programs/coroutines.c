// Two coroutines on stacks of their own that hand values to each other, and a generator left half-way.
// build coroutines: -O2 -g
//
// coroutines [ROUNDS]: prints how often each function was called.
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

static ucontext_t outside, producer_side, consumer_side;
static char stacks[2][65536];
static long produced, calls_make, calls_take, rounds;

__attribute__((noinline, noipa)) long make(long x) {
    calls_make++;
    return x * 7 + 3;
}

__attribute__((noinline, noipa)) void take(long x) {
    calls_take++;
    produced += x;
}

static long handed;

__attribute__((noinline, noipa)) void producer(void) {
    for (long i = 0; i < rounds; i++) {
        handed = make(i);
        swapcontext(&producer_side, &consumer_side);
    }
    setcontext(&outside);
}

__attribute__((noinline, noipa)) void consumer(void) {
    for (;;) {
        take(handed);
        swapcontext(&consumer_side, &producer_side);
    }
}

static void prepare(ucontext_t *side, char *stack, void (*body)(void)) {
    getcontext(side);
    side->uc_stack.ss_sp = stack;
    side->uc_stack.ss_size = sizeof stacks[0];
    side->uc_link = &outside;
    makecontext(side, body, 0);
}

int main(int argc, char **argv) {
    rounds = argc > 1 ? atol(argv[1]) : 20;
    prepare(&producer_side, stacks[0], producer);
    prepare(&consumer_side, stacks[1], consumer);
    swapcontext(&outside, &producer_side);
    printf("make %ld\ntake %ld\nproducer 1\nconsumer 1\n", calls_make, calls_take);
    return produced == 0;
}
