/* Three processes lock one file in turn, and hold it for two milliseconds. */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	for (int process = 0; process < 3 && argc > 1; process++) {
		if (fork())
			continue;
		int file = open(argv[1], O_RDWR | O_CREAT, 0600);

		for (int i = 0; i < 50; i++) {
			flock(file, LOCK_EX);
			usleep(2000);
			flock(file, LOCK_UN);
			usleep(100);
		}
		return 0;
	}
	while (wait(0) > 0)
		;
}
