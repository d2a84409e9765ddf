// A storm of page faults: every page touched once, given back, touched again.
// build faults: -O2 -g
//
// faults [ROUNDS]: prints how many pages it touched.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((noinline)) static void touch(volatile char *pages, long count, long size) {
    for (long i = 0; i < count; i++) pages[i * size] = 1;
}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 50;
    long size = sysconf(_SC_PAGESIZE), count = 4096;
    for (long i = 0; i < rounds; i++) {
        char *pages = mmap(NULL, (size_t)(count * size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED) return 1;
        madvise(pages, (size_t)(count * size), MADV_NOHUGEPAGE);
        touch(pages, count, size);
        munmap(pages, (size_t)(count * size));
    }
    printf("%ld pages\n", rounds * count);
    return 0;
}
