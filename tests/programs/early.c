// Opens a library whose constructors call functions, closes it and opens it again; prints how often what was called.
// The library is the same source, built with -DLIBRARY; the tests build both.
#include <stdio.h>

#define NOINLINE __attribute__((noinline, noipa))

#ifdef LIBRARY
static long n_step, n_later;

NOINLINE void early_step(long i) { n_step += i >= 0; }
NOINLINE void early_later(void) { n_later++; }
__attribute__((constructor)) static void begin(void) {
    for (long i = 0; i < 7; i++)
        early_step(i);
}
void early_counts(long *step, long *later) {
    early_later();
    *step += n_step;
    *later += n_later;
}
#else
#include <dlfcn.h>

int main(void) {
    long step = 0, later = 0;
    for (int round = 0; round < 3; round++) {
        void *library = dlopen("libearly.so", RTLD_LAZY);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        void (*counts)(long *, long *) = (void (*)(long *, long *))dlsym(library, "early_counts");
        counts(&step, &later);
        dlclose(library);
    }
    printf("early_step %ld\nearly_later %ld\n", step, later);
    return 0;
}
#endif
