// Reads a file past the page cache and syncs writes: waits for the disk that no CPU profile shows.
// build disk: -O2 -g
//
// disk [ROUNDS [FILE]]
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 65536 };

__attribute__((noinline)) static void write_and_sync(int file, const char *block, int round) {
    if (pwrite(file, block, BLOCK, (off_t)(round % 16) * BLOCK) != BLOCK) exit(1);
    fsync(file);
}

__attribute__((noinline)) static void read_directly(int file, char *block, int round) {
    if (pread(file, block, BLOCK, (off_t)(round % 16) * BLOCK) < 0) exit(1);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 2000;
    char name[4096];
    snprintf(name, sizeof name, "%s", argc > 2 ? argv[2] : "disk.tmp");
    void *block;
    if (posix_memalign(&block, 4096, BLOCK)) return 1;
    memset(block, 1, BLOCK);
    int out = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (out < 0) return perror(name), 1;
    for (int i = 0; i < 16; i++) write_and_sync(out, block, i);
    int in = open(name, O_RDONLY | O_DIRECT);
    if (in < 0) in = open(name, O_RDONLY); // a file system in memory has no direct reads
    for (int i = 0; i < rounds; i++) {
        read_directly(in, block, i);
        if (i % 8 == 0) write_and_sync(out, block, i);
    }
    unlink(name);
    return 0;
}
