// Tail calls, direct, indirect and conditional, and functions that end in each other.
// build tails: -O2 -g
//
// tails [ROUNDS]: prints how often each function was called.
#include <stdio.h>
#include <stdlib.h>

static long n_even, n_odd, n_last, n_pick, n_left, n_right;

__attribute__((noinline, noipa)) long last(long x) {
    n_last++;
    return x + 1;
}

__attribute__((noinline, noipa)) long odd(long n);

__attribute__((noinline, noipa)) long even(long n) {
    n_even++;
    return n == 0 ? last(n) : odd(n - 1);
}

__attribute__((noinline, noipa)) long odd(long n) {
    n_odd++;
    return n == 0 ? last(-n) : even(n - 1);
}

__attribute__((noinline, noipa)) long left(long x) {
    n_left++;
    return last(x);
}

__attribute__((noinline, noipa)) long right(long x) {
    n_right++;
    return x - 1;
}

static long (*const ways[])(long) = {left, right};

__attribute__((noinline, noipa)) long pick(long x) {
    n_pick++;
    return ways[x & 1](x);
}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 20;
    long sum = 0;
    for (long i = 0; i < rounds; i++)
        sum += even(i) + pick(i);
    printf("even %ld\nodd %ld\nlast %ld\npick %ld\nleft %ld\nright %ld\n", n_even, n_odd, n_last, n_pick, n_left,
           n_right);
    return sum == 0;
}
