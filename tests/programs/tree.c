// Builds an expression tree, folds and prints it over and over: short call chains of known shape, through functions with
// several callers and one that calls itself. Needs no library, so its recordings contain all their names.
// `cargo xtask fixtures --record` builds it for the recordings of tests/recordings.

static volatile unsigned long sink;

__attribute__((noinline)) static unsigned long mix(unsigned long value, int rounds) {
    for (int i = 0; i < rounds; i++) value = value * 6364136223846793005ul + (value >> 33);
    return value;
}

__attribute__((noinline)) static unsigned long fold(unsigned long value, int depth) {
    if (depth == 0) return mix(value, 400);
    unsigned long left = fold(value + 1, depth - 1);
    return left + mix(left, 100);
}

__attribute__((noinline)) static unsigned long lex(unsigned long value) {
    return mix(value, 900);
}

__attribute__((noinline)) static unsigned long parse(unsigned long value) {
    unsigned long token = lex(value);
    return token + lex(token);
}

__attribute__((noinline)) static unsigned long print(unsigned long value) {
    unsigned long sum = 0;
    for (int i = 0; i < 3; i++) sum += mix(value + i, 500);
    return sum;
}

__attribute__((noinline)) static void once(unsigned long value) {
    unsigned long tree = parse(value);
    sink += fold(tree, 6);
    sink += print(tree);
}

__attribute__((noinline)) static void work(void) {
    for (unsigned long i = 0; i < 60000; i++) once(i);
}

void _start(void) {
    work();
    __asm__ volatile("syscall" : : "a"(231), "D"(0));
    __builtin_unreachable();
}
