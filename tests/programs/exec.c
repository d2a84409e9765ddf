// Works under one name, then under another: exec keeps the pid and replaces everything else.
// build exec: -O2 -g
//
// exec [STAGES]: runs itself again, STAGES times, as exec-1, exec-2 …
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

__attribute__((noinline)) static long burn(long rounds) {
    long sum = 1;
    for (long i = 0; i < rounds; i++) sum = sum * 6364136223846793005UL + (unsigned long)i;
    return sum;
}

int main(int argc, char **argv) {
    int left = argc > 1 ? atoi(argv[1]) : 3;
    int stage = argc > 2 ? atoi(argv[2]) : 0;
    char name[16], left_text[16], stage_text[16];
    snprintf(name, sizeof name, "exec-%d", stage % 1000);
    prctl(PR_SET_NAME, name);
    long sum = burn(150000000);
    if (left > 0) {
        snprintf(left_text, sizeof left_text, "%d", left - 1);
        snprintf(stage_text, sizeof stage_text, "%d", stage + 1);
        execl("/proc/self/exe", argv[0], left_text, stage_text, (char *)NULL);
        return 1;
    }
    printf("%ld\n", sum);
    return 0;
}
