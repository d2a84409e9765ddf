// Makes code at run time, tells of it in jit-PID.dump as runtimes do, runs it, makes other code over it and runs that:
// calls from code of no file into code of a file, and back.
// build jit: -O2 -g
//
// jit [ROUNDS [FOLDER]]: prints how often each function was called. The dump goes to FOLDER, or here.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static long n_leaf, n_other;
static int dump;
static uint64_t made;

__attribute__((noinline, noipa)) void leaf(void) { n_leaf++; }
__attribute__((noinline, noipa)) void other(void) { n_other++; }

static uint64_t ticks(void) {
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

static void begin_dump(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/jit-%d.dump", folder, getpid());
    dump = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
    // Mapped executable, so that a recording holds where it lies.
    if (dump < 0 || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, dump, 0) == MAP_FAILED)
        exit(1);
    struct {
        uint32_t magic, version, size, machine, pad, pid;
        uint64_t time, flags;
    } header = {0x4A695444, 1, sizeof header, 62, 0, getpid(), ticks(), 1};
    if (write(dump, &header, sizeof header) != sizeof header)
        exit(1);
}

// Tells of code before it runs.
static void tell(const char *name, const unsigned char *code, size_t bytes) {
    struct {
        uint32_t id, size;
        uint64_t time;
        uint32_t pid, tid;
        uint64_t vma, start, bytes, index;
    } load = {0, 0, ticks(), getpid(), getpid(), (uintptr_t)code, (uintptr_t)code, bytes, made++};
    char record[1024];
    load.size = sizeof load + strlen(name) + 1 + bytes;
    memcpy(record, &load, sizeof load);
    strcpy(record + sizeof load, name);
    memcpy(record + sizeof load + strlen(name) + 1, code, bytes);
    if (write(dump, record, load.size) != load.size)
        exit(1);
}

// void f(int n) { do { for each of `calls`: it(); } while (--n); }
static size_t make(unsigned char *at, void (*const *calls)(void), int count) {
    unsigned char *to = at;
    memcpy(to, "\x53\x89\xfb", 3); // push %rbx; mov %edi,%ebx
    to += 3;
    unsigned char *loop = to;
    for (int i = 0; i < count; i++) {
        memcpy(to, "\x48\xb8", 2); // movabs $it,%rax
        memcpy(to + 2, &calls[i], 8);
        memcpy(to + 10, "\xff\xd0", 2); // call *%rax
        to += 12;
    }
    memcpy(to, "\xff\xcb\x75", 3); // dec %ebx; jne loop
    to[3] = (unsigned char)(loop - (to + 4));
    memcpy(to + 4, "\x5b\xc3", 2); // pop %rbx; ret
    return (size_t)(to + 6 - at);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 50;
    begin_dump(argc > 2 ? argv[2] : ".");
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        return 1;
    void (*const calls[])(void) = {leaf, other, leaf};
    tell("made_first", code, make(code, calls, 1));
    ((void (*)(int))code)(rounds);
    tell("made_second", code, make(code, calls, 3));
    ((void (*)(int))code)(rounds);
    printf("leaf %ld\nother %ld\nmade_first 1\nmade_second 1\n", n_leaf, n_other);
    return 0;
}
