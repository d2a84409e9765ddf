// Runs through functions of a library, which it then cuts off in place: `shrinks LIBRARY` prints `done` and exits with 7.
// What is left on its stack are return addresses whose unwind rules are in the part that is gone. It never goes back there.
// Built twice: with -DLIBRARY -shared -fPIC as the library, which is larger than what tally copies instead of mapping.
#include <stdio.h>

#ifdef LIBRARY
const volatile char padding[1 << 20] = {1};

#define THROUGH(number)                                                                                                \
    __attribute__((noipa, visibility("hidden"))) int through_##number(int (*work)(int), int left) {                   \
        volatile char room[16 + 8 * number];                                                                           \
        room[0] = padding[number];                                                                                     \
        return work(left) + room[0];                                                                                   \
    }
THROUGH(0) THROUGH(1) THROUGH(2) THROUGH(3) THROUGH(4) THROUGH(5) THROUGH(6) THROUGH(7)

__attribute__((noipa)) int through(int (*work)(int), int left) {
    int (*const all[])(int (*)(int), int) = {through_0, through_1, through_2, through_3,
                                             through_4, through_5, through_6, through_7};
    return all[left & 7](work, left) + 1;
}
#else
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const char *library;
static int (*through)(int (*)(int), int);

__attribute__((noipa)) static void busy(long ms) {
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < ms);
}
__attribute__((noipa)) static int shallow(int left) {
    busy(300);
    return left;
}
__attribute__((noipa)) static int deep(int left) {
    if (left > 0) return through(deep, left - 1) + 1;
    if (truncate(library, 8192) != 0) _exit(3);
    busy(700);
    printf("done\n");
    fflush(stdout);
    _exit(7);
}
int main(int count, char **words) {
    library = words[count - 1];
    void *opened = dlopen(library, RTLD_NOW);
    if (opened == NULL) return puts(dlerror()), 2;
    through = (int (*)(int (*)(int), int))dlsym(opened, "through");
    through(shallow, 0);
    return through(deep, 15);
}
#endif
