// Threads that work on requests of two routes, and publish that as OpenTelemetry's thread context (OTEP 4947, 4719).
//
// build libroutes.so: -DLIBRARY -O1 -g -shared -fPIC
// build routes: -DINSIDE -rdynamic -O1 -g -pthread
//
//   routes THREADS REQUESTS [LIBRARY | bad]
//
// Threads come before those of other programs where that is allowed. Each takes REQUESTS of both routes in turn, and waits
// without a context in between:
//
//   /compute    30 ms on the CPU, 10 ms asleep, with a span of its own inside
//   /report     10 ms on the CPU, 40 ms asleep
//
// At the end it prints its own measurement of each route, ns: requests, wall, on the CPU, asleep. LIBRARY is loaded while
// it runs. bad: other threads publish records that are torn, lead nowhere, or have damaged attributes.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct record {
    uint8_t trace[16];
    uint8_t span[8];
    uint8_t valid, flags;
    uint16_t bytes;
    uint8_t attributes[64];
};

#if defined(LIBRARY) || defined(INSIDE)
__thread struct record *otel_thread_ctx_v1;

__attribute__((noinline)) void publish(struct record *record) {
    otel_thread_ctx_v1 = record;
    __asm__ volatile("" ::: "memory");
}
#endif

#ifndef LIBRARY
#ifdef INSIDE
void publish(struct record *record);
#endif
static void (*publish_it)(struct record *);

static uint64_t now(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec * 1000000000ull + at.tv_nsec;
}

static uint64_t rest(uint64_t ns) {
    struct timespec length = {ns / 1000000000, ns % 1000000000};
    uint64_t began = now(CLOCK_MONOTONIC);
    nanosleep(&length, 0);
    return now(CLOCK_MONOTONIC) - began;
}

static void compute(uint64_t ns) {
    uint64_t began = now(CLOCK_THREAD_CPUTIME_ID);
    while (now(CLOCK_THREAD_CPUTIME_ID) - began < ns)
        ;
}

static const char *names[2] = {"/compute", "/report"};
static uint64_t sums[2][4];
static int requests;
static volatile int over;

static void fill(struct record *record, int trace, int span, const char *route) {
    memset(record, 0, sizeof *record);
    memcpy(record->trace, &trace, sizeof trace);
    memcpy(record->span, &span, sizeof span);
    record->trace[15] = 1;
    if (route) {
        record->attributes[0] = 1;
        record->attributes[1] = strlen(route);
        memcpy(record->attributes + 2, route, strlen(route));
        record->bytes = 2 + strlen(route);
    }
    record->valid = 1;
}

static void add(int route, int what, uint64_t ns) {
    __atomic_add_fetch(&sums[route][what], ns, __ATOMIC_RELAXED);
}

static void *serve(void *argument) {
    struct record outer, inner;
    int number = (intptr_t)argument * 1000000;
    struct sched_param first = {.sched_priority = 1};
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &first);
    for (int i = 0; i < 40; i++)
        poll(0, 0, 10);
    for (int i = 0; i < 2 * requests; i++) {
        int route = i & 1;
        uint64_t began = now(CLOCK_MONOTONIC), used = now(CLOCK_THREAD_CPUTIME_ID);
        number++;
        fill(&outer, number, 1, names[route]);
        publish_it(&outer);
        compute(10000000);
        if (!route) {
            fill(&inner, number, 2, 0);
            publish_it(&inner);
            compute(20000000);
            publish_it(&outer);
        }
        add(route, 3, rest(route ? 40000000 : 10000000));
        publish_it(0);
        add(route, 0, 1);
        add(route, 1, now(CLOCK_MONOTONIC) - began);
        add(route, 2, now(CLOCK_THREAD_CPUTIME_ID) - used);
        poll(0, 0, 5);
    }
    return 0;
}

/* Torn, unreadable, not UTF-8, longer than it is, at the end of the memory, and another `valid`. */
static void *misbehave(void *argument) {
    char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct record torn, *last = (void *)(pages + 4096 - 28);
    mprotect(pages + 4096, 4096, PROT_NONE);
    for (int i = 0; !over; i++) {
        fill(&torn, -i, 9, "\xff\xfe\x80");
        switch (i % 6) {
        case 0: torn.valid = 0; break;
        case 1: publish_it((void *)0x123456789000); compute(2000000); continue;
        case 2: torn.attributes[1] = 200; break;
        case 3: torn.bytes = 65535; break;
        case 4:
            memcpy(last, &torn, 28);
            publish_it(last);
            compute(2000000);
            continue;
        default: torn.valid = 7;
        }
        publish_it(&torn);
        compute(2000000);
        rest(1000000);
    }
    return argument;
}

/* Source: OTEP 4719; the payload is protobuf, field 2 of ProcessContext. */
static void publish_keys(void) {
    static const char payload[] = "\x12\x40\x0a\x1dthreadlocal.attribute_key_map\x12\x1f\x2a\x1d"
                                  "\x0a\x0d\x0a\x0bhttp.method\x0a\x0c\x0a\x0ahttp.route";
    struct header {
        char signature[8];
        uint32_t version, bytes;
        uint64_t published;
        const char *payload;
    } *header;
    int file = memfd_create("OTEL_CTX", 0);
    if (file < 0 || ftruncate(file, 4096))
        abort();
    header = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (header == MAP_FAILED)
        abort();
    header->version = 2;
    header->bytes = sizeof payload - 1;
    header->published = 1;
    header->payload = payload;
    memcpy(header->signature, "OTEL_CTX", 8);
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    const char *more = argc > 3 ? argv[3] : "";
    pthread_t all[64], bad;
    requests = argc > 2 ? atoi(argv[2]) : 20;
#ifdef INSIDE
    publish_it = publish;
#else
    void *library = dlopen(more, RTLD_NOW);
    publish_it = library ? (void (*)(struct record *))dlsym(library, "publish") : 0;
    if (!publish_it)
        abort();
#endif
    publish_keys();
    if (!strcmp(argv[argc - 1], "bad"))
        pthread_create(&bad, 0, misbehave, 0);
    for (int i = 0; i < threads; i++)
        pthread_create(&all[i], 0, serve, (void *)(intptr_t)(i + 1));
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], 0);
    over = 1;
    for (int i = 0; i < 2; i++)
        printf("%s %lu %lu %lu %lu\n", names[i], (unsigned long)sums[i][0], (unsigned long)sums[i][1],
               (unsigned long)sums[i][2], (unsigned long)sums[i][3]);
    return 0;
}
#endif
