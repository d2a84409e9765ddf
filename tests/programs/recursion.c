// Recursion deeper than what is kept of a thread in one place: of one function, of two that call each other, and one that
// is left by longjmp; prints how often it called what.
//
// recursion DEPTH
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline, noipa))

static long n_down, n_leaf, n_even, n_odd, n_top;
static jmp_buf before;
static int jumps;

NOINLINE long leaf(long n) {
    n_leaf++;
    return n + 1;
}

NOINLINE long down(long n) {
    n_down++;
    if (n > 0)
        return down(n - 1) + 1;
    if (jumps)
        longjmp(before, 1);
    return leaf(0);
}

NOINLINE long odd(long n);

NOINLINE long even(long n) {
    n_even++;
    return n == 0 ? leaf(1) : odd(n - 1) + 1;
}

NOINLINE long odd(long n) {
    n_odd++;
    return n == 0 ? leaf(2) : even(n - 1) + 1;
}

NOINLINE long top(long depth) {
    n_top++;
    return down(depth) + even(depth);
}

int main(int argc, char **argv) {
    long depth = argc > 1 ? atol(argv[1]) : 1000;
    long sum = top(depth);
    jumps = 1;
    if (!setjmp(before))
        sum += down(depth);
    sum += leaf(3);
    printf("down %ld\nleaf %ld\neven %ld\nodd %ld\ntop %ld\n", n_down, n_leaf, n_even, n_odd, n_top);
    return sum == 0;
}
