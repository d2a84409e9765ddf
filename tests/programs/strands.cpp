// Counts its own calls where coroutines are: switches written by hand, stacks of 64 KiB one behind the other, calls that
// wait on several of them; exceptions and jumps inside one while others wait; stacks that are unmapped or used again
// while calls are open on them; all that in two threads.
// build strands: -O2 -g
//
// strands [ROUNDS]: prints how often each function was called.
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <sys/mman.h>

#define APART __attribute__((noinline, noipa))
#define PLAIN __attribute__((no_instrument_function, noinline, noipa))
#define COUNT(name) __atomic_add_fetch(&n_##name, 1, __ATOMIC_RELAXED)

static long n_deep, n_step, n_body, n_thrower, n_catcher, n_jumper, n_goer, n_lost;
static long rounds = 200;
enum { STRANDS = 4, BYTES = 65536 };

// One thread's coroutines.
struct Strands {
    char *stacks;
    void *away[STRANDS], *home;
    int current;
};
static __thread Strands *own;
static volatile long sink;

extern "C" {
// Saves what a call must, and goes on where another one saved.
__attribute__((naked, no_instrument_function, noinline, noipa)) void hop(void **, void *) {
    __asm__("push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\nmov %rsp, (%rdi)\nmov %rsi, %rsp\n"
            "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
}
PLAIN void yield(void) { hop(&own->away[own->current], own->home); }

APART long step(long x) { COUNT(step); return x + 1; }
APART void thrower(long depth) {
    COUNT(thrower);
    if (depth == 0) throw depth;
    thrower(depth - 1);
    sink = sink + depth;
}
APART void catcher(long depth) {
    COUNT(catcher);
    try { thrower(depth); } catch (long) { step(depth); }
}
APART void jumper(jmp_buf to, long depth) {
    COUNT(jumper);
    if (depth == 0) longjmp(to, 1);
    jumper(to, depth - 1);
    sink = sink + depth;
}
APART void goer(long depth) {
    COUNT(goer);
    jmp_buf here;
    if (setjmp(here) == 0) jumper(here, depth);
}
APART long deep(long n) {
    COUNT(deep);
    if (n == 0) { yield(); return 0; }
    if (n == 2) yield();
    long sum = deep(n - 1);
    return sum + step(n);
}
APART void body(void) {
    COUNT(body);
    for (;;) {
        deep(5);
        catcher(3);
        goer(3);
        yield();
    }
}
APART void lost(long n) {
    COUNT(lost);
    if (n == 0) yield();
    else lost(n - 1);
    sink = sink + n;
}
PLAIN void start(void) { body(); __builtin_trap(); }
PLAIN void start_lost(void) { lost(4); __builtin_trap(); }
}

PLAIN static void *prepared(char *stack, void (*function)(void)) {
    void **top = reinterpret_cast<void **>(stack + BYTES - 64);
    *--top = nullptr;
    *--top = reinterpret_cast<void *>(function);
    return top - 6;
}
PLAIN static void resume(int i) {
    own->current = i;
    hop(&own->home, own->away[i]);
}
PLAIN static char *mapped(long bytes) {
    void *at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? nullptr : static_cast<char *>(at);
}

PLAIN static void *all(void *) {
    Strands strands = {mapped(STRANDS * BYTES), {}, nullptr, 0};
    own = &strands;
    for (int i = 0; i < STRANDS; i++) strands.away[i] = prepared(strands.stacks + i * BYTES, start);
    for (long round = 0; round < rounds; round++) {
        for (int i = 0; i < STRANDS; i++) resume(round & 1 ? STRANDS - 1 - i : i * 3 % STRANDS);
        catcher(5);
        goer(5);
    }
    // Those that wait are never gone on with: the first stack is used again and again, then all are unmapped.
    for (long round = 0; round < rounds; round++) {
        strands.away[0] = prepared(strands.stacks, start_lost);
        resume(0);
    }
    munmap(strands.stacks, STRANDS * BYTES);
    for (long round = 0; round < rounds; round++) {
        char *stack = mapped(BYTES);
        strands.away[0] = prepared(stack, start_lost);
        resume(0);
        munmap(stack, BYTES);
        catcher(5);
        goer(5);
    }
    return nullptr;
}

PLAIN int main(int argc, char **argv) {
    if (argc > 1) rounds = atol(argv[1]);
    pthread_t other;
    pthread_create(&other, nullptr, all, nullptr);
    all(nullptr);
    pthread_join(other, nullptr);
    printf("deep %ld\nstep %ld\nbody %ld\nthrower %ld\ncatcher %ld\njumper %ld\ngoer %ld\nlost %ld\n", n_deep, n_step,
           n_body, n_thrower, n_catcher, n_jumper, n_goer, n_lost);
    return sink == 1;
}
