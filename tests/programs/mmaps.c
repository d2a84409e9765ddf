// Sixteen threads map a cached file, touch it and unmap it: the address space's lock is what they wait for.
// build mmaps: -O2 -g -pthread
//
// mmaps [THREADS [ROUNDS [read]]]: with `read` the same bytes are read into a buffer instead, which needs no lock.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 64 };
static int file, rounds, reads;
static long page;

__attribute__((noinline)) static long map_and_sum(void) {
    char *bytes = mmap(NULL, (size_t)(PAGES * page), PROT_READ, MAP_SHARED, file, 0);
    if (bytes == MAP_FAILED) return 0;
    long sum = 0;
    for (long i = 0; i < PAGES; i++) sum += bytes[i * page];
    munmap(bytes, (size_t)(PAGES * page));
    return sum;
}

__attribute__((noinline)) static long read_and_sum(char *bytes) {
    if (pread(file, bytes, (size_t)(PAGES * page), 0) < 0) return 0;
    long sum = 0;
    for (long i = 0; i < PAGES; i++) sum += bytes[i * page];
    return sum;
}

static void *work(void *arg) {
    long *sum = arg;
    char *bytes = reads ? malloc((size_t)(PAGES * page)) : NULL;
    for (int i = 0; i < rounds; i++) *sum += bytes ? read_and_sum(bytes) : map_and_sum();
    free(bytes);
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 16;
    rounds = argc > 2 ? atoi(argv[2]) : 2000;
    reads = argc > 3;
    page = sysconf(_SC_PAGESIZE);
    file = memfd_create("mmaps", 0);
    if (file < 0 || ftruncate(file, PAGES * page) != 0) return 1;
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    long *sums = calloc((size_t)threads, sizeof *sums);
    for (int i = 0; i < threads; i++) pthread_create(&ids[i], NULL, work, &sums[i]);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    printf("%ld\n", sums[0]);
    return 0;
}
