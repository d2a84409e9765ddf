// How deep its own stack is by backtrace(), which a tracer must not change.
// build backtraces: -O2
#include <execinfo.h>
#include <stdio.h>

#define APART __attribute__((noinline, noipa))

APART int leaf(void) {
    void *frames[64];
    return backtrace(frames, 64);
}

APART int middle(void) { return leaf() + 0; }

APART int outer(void) { return middle() + 0; }

int main(void) {
    for (int i = 0; i < 3; i++) printf("%d frames\n", outer());
    return 0;
}
