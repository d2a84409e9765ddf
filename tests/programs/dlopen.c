// Loads a library half-way, works in it, unloads it, and loads it again.
// build dlopen: -O2 -g -ldl
//
// dlopen [ROUNDS]: `plugin.so` stands beside the program.
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline)) static long with_library(const char *path, long rounds) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    long (*work)(long) = (long (*)(long))dlsym(library, "plugin_work");
    long sum = work(rounds);
    dlclose(library);
    return sum;
}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 300000;
    char own[PATH_MAX], path[PATH_MAX + 16];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length < 0) return 1;
    own[length] = 0;
    snprintf(path, sizeof path, "%s/plugin.so", dirname(own));
    usleep(50000);
    long sum = with_library(path, rounds);
    printf("%ld\n", sum + with_library(path, rounds));
    return 0;
}
