// Runs a program of another machine under its emulator: `under_qemu EMULATOR ROOT RECORDER PROGRAM [WORD …]`. What says how calls
// are recorded goes to the program alone, with the recorder that is for its machine.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

// Filters must mean some function of the program that is started; what they are for is in the other one.
void fib(void) {}
void jumper(void) {}

int main(int count, char **words) {
    if (count < 5)
        return 2;
    char *command[64] = {words[1], "-L", words[2]};
    int n = 3;
    for (char **at = environ; *at && n < 56; at++) {
        if (strncmp(*at, "TALLY_CALLS_", 12) == 0) {
            command[n++] = "-E";
            command[n++] = strdup(*at);
        }
    }
    char preload[4096] = "LD_PRELOAD=";
    strncat(preload, words[3], sizeof preload - 16);
    command[n++] = "-E";
    command[n++] = preload;
    for (int i = 4; i < count && n < 63; i++) command[n++] = words[i];
    for (int i = 3; i < n; i++) {
        char *end = strncmp(command[i], "TALLY_CALLS_", 12) ? NULL : strchr(command[i], '=');
        if (end) {
            char *name = strndup(command[i], end - command[i]);
            unsetenv(name);
            free(name);
        }
    }
    unsetenv("LD_PRELOAD");
    execvp(command[0], command);
    return 127;
}
