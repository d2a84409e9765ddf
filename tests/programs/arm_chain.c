// Call chains of 32-bit ARM that are known: each function that spins is reached in one way only. Without a C library, so
// that a recording of it has no code of others. tests/recordings/README.md has the commands.
//
// The file is compiled twice: with -DTABLES and -funwind-tables, where functions have exception tables, and without both.

typedef unsigned u32;
#define NOINLINE __attribute__((noinline, noclone))
#define ARM __attribute__((target("arm")))

static long call(long number, long a, long b, long c, long d) {
    register long r7 __asm__("r7") = number;
    register long r0 __asm__("r0") = a;
    register long r1 __asm__("r1") = b;
    register long r2 __asm__("r2") = c;
    register long r3 __asm__("r3") = d;
    __asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2), "r"(r3) : "memory");
    return r0;
}

#ifdef TABLES
volatile u32 sink;
void without_tables(void);

NOINLINE u32 leaf(u32 x, u32 n) {
    while (n--) x = x * 1664525u + 1013904223u + (x >> 7);
    return x;
}

NOINLINE void spin(u32 rounds) {
    for (u32 i = 0; i < rounds; i++) sink += leaf(sink, 50000);
}

NOINLINE ARM double spin_with_floats(double a, double b) {
    for (u32 i = 0; i < 75000; i++) {
        a = a * 1.5 + leaf(sink, 2000);
        b = b * 0.5 + a;
    }
    return a + b;
}

NOINLINE void down(u32 depth) {
    if (depth) down(depth - 1);
    else spin(3000);
    sink++;
}

NOINLINE ARM void with_tables(void) {
    down(4);
    sink += (u32)spin_with_floats(1, 2);
}

void _start(void) {
    with_tables();
    without_tables();
    call(248, 0, 0, 0, 0);  // exit_group
}

// The tables name these routines of a C++ runtime.
void __aeabi_unwind_cpp_pr0(void) {}
void __aeabi_unwind_cpp_pr1(void) {}
#else
extern volatile u32 sink;
u32 leaf(u32 x, u32 n);

NOINLINE void spin_of_any_size(u32 bytes) {
    volatile char room[bytes];
    for (u32 i = 0; i < 3000; i++) {
        room[i & 63] = 1;
        sink += leaf(sink, 50000);
    }
    sink += room[0];
}

NOINLINE ARM void spin_in_arm(u32 a, u32 b, u32 c, u32 d, u32 e) {
    for (u32 i = 0; i < 3000; i++) sink += leaf(a + b + c + d + e, 50000);
}

__attribute__((naked)) static void restorer(void) { __asm__ volatile("mov r7, #173\n\tsvc 0"); }

NOINLINE void handler(int number) {
    (void)number;
    for (u32 i = 0; i < 3000; i++) sink += leaf(sink, 50000);
}

NOINLINE void raise_signal(void) {
    struct { void (*handler)(int); unsigned long flags; void (*restorer)(void); u32 mask[2]; } action = {
        handler, 0x04000000 | 4, restorer, {0, 0}};  // SA_RESTORER, SA_SIGINFO
    call(174, 10, (long)&action, 0, 8);              // rt_sigaction of SIGUSR1
    call(238, call(224, 0, 0, 0, 0), 10, 0, 0);      // tkill of gettid
    sink++;
}

NOINLINE void without_tables(void) {
    spin_of_any_size(100 + (sink & 63));
    spin_in_arm(1, 2, 3, 4, sink);
    raise_signal();
    sink++;
}
#endif
