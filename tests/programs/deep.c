// Recursion with large frames: deeper than one snapshot of the stack can be.
// build deep: -O1 -g -fno-optimize-sibling-calls
// build deep-fp: -O1 -g -fno-optimize-sibling-calls -fno-omit-frame-pointer
//
// deep [DEPTH [FRAME_BYTES [ROUNDS]]]: 2,000 frames of 512 bytes are a megabyte of stack.
#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int bytes;

__attribute__((noinline)) static long leaf(long seed) {
    for (int i = 0; i < 20000; i++) seed = seed * 6364136223846793005UL + 1442695040888963407L;
    return seed;
}

__attribute__((noinline)) static long descend(int depth, long seed) {
    volatile char *room = alloca((size_t)bytes);
    room[0] = (char)seed;
    if (depth == 0) return leaf(seed);
    long below = descend(depth - 1, seed + 1);
    return below + room[0];
}

int main(int argc, char **argv) {
    int depth = argc > 1 ? atoi(argv[1]) : 2000;
    bytes = argc > 2 ? atoi(argv[2]) : 512;
    int rounds = argc > 3 ? atoi(argv[3]) : 20000;
    long sum = 0;
    for (int i = 0; i < rounds; i++) sum += descend(depth, i);
    printf("%ld\n", sum);
    return 0;
}
