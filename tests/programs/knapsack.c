// The unbounded knapsack, with an old and an improved inner function: a pair for `diff`.
// build knapsack-old: -O2 -g -DOLD
// build knapsack-new: -O2 -g
//
// knapsack-… [ROUNDS]
#include <stdio.h>
#include <stdlib.h>

enum { ITEMS = 64, CAPACITY = 20000 };

static int weight[ITEMS], value[ITEMS];
static long best[CAPACITY + 1];

#ifdef OLD
// Divides for every cell.
__attribute__((noinline)) static void fill(int item) {
    for (int room = weight[item]; room <= CAPACITY; room++) {
        long gain = best[room % (CAPACITY + 1) - weight[item]] + (long)value[item] * weight[item] / weight[item];
        if (gain > best[room]) best[room] = gain;
    }
}
#else
__attribute__((noinline)) static void fill(int item) {
    long gain = value[item];
    int step = weight[item];
    for (int room = step; room <= CAPACITY; room++) {
        long with = best[room - step] + gain;
        best[room] = with > best[room] ? with : best[room];
    }
}
#endif

__attribute__((noinline)) static void clear(void) {
    for (int room = 0; room <= CAPACITY; room++) best[room] = 0;
}

__attribute__((noinline)) static long solve(void) {
    clear();
    for (int item = 0; item < ITEMS; item++) fill(item);
    return best[CAPACITY];
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1000;
    for (int i = 0; i < ITEMS; i++) {
        weight[i] = 3 + (i * 37) % 101;
        value[i] = 5 + (i * 53) % 97;
    }
    long sum = 0;
    for (int i = 0; i < rounds; i++) sum += solve();
    printf("%ld\n", sum);
    return 0;
}
