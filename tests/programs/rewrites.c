// Rewrites a call in its own code: from then on another function is called than the file says.
// build rewrites: -O2 -g
//
// rewrites [ROUNDS]: prints how often each function was called.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static long n_one, n_two, n_plain;

__attribute__((noinline, noipa)) void one(void) { n_one++; }
__attribute__((noinline, noipa)) void two(void) { n_two++; }
__attribute__((noinline, noipa)) void plain(void) { n_plain++; }

// In a page of its own.
__attribute__((noinline, noipa, aligned(4096), section(".text.rewritten"))) void changed(void) {
    one();
    __asm__ volatile("" ::: "memory");
}
__attribute__((noinline, noipa, aligned(4096), section(".text.rewritten"), used)) void behind(void) {}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 50;
    for (long i = 0; i < rounds; i++) {
        changed();
        plain();
    }
    unsigned char *code = (unsigned char *)(uintptr_t)changed;
    if (mprotect(code, 4096, PROT_READ | PROT_WRITE | PROT_EXEC))
        return 1;
    for (int i = 0; i < 64; i++) {
        int32_t to;
        memcpy(&to, code + i + 1, 4);
        if (code[i] == 0xe8 && code + i + 5 + to == (unsigned char *)(uintptr_t)one) {
            to = (int32_t)((unsigned char *)(uintptr_t)two - (code + i + 5));
            memcpy(code + i + 1, &to, 4);
            break;
        }
    }
    for (long i = 0; i < rounds; i++) {
        changed();
        plain();
    }
    printf("one %ld\ntwo %ld\nplain %ld\n", n_one, n_two, n_plain);
    return 0;
}
