// Opens a library by its bare name three times, calls into it and closes it; prints how often it called what.
// Built by the tests, with a RUNPATH that only this program has.
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
    long sum = 0, works = 0, closed = 0;
    for (int round = 0; round < 3; round++) {
        void *library = dlopen("libplugin.so", RTLD_NOW);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        long (*work)(long) = (long (*)(long))dlsym(library, "plugin_work");
        sum += work(7);
        works++;
        closed++;
        dlclose(library);
    }
    printf("plugin_work %ld\nplugin_inner %ld\ndlclose %ld\n", works, works * 7, closed);
    return sum == 0;
}
