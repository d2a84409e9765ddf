// A program without a library, for tests of annotate, probe and list: counter is built from this file.
struct item { int weight; struct item *next; };

static struct item items[3] = {{5, items + 1}, {7, items + 2}, {11, 0}};
volatile long total;

// A probe of the program's own: counter:step, with the weight as its argument.
#define STEP(weight) __asm__ volatile("990: nop\n" \
    ".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n" \
    "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b, 0, 0\n" \
    ".asciz \"counter\"\n.asciz \"step\"\n.asciz \"-4@%%edi\"\n994: .balign 4\n.popsection" :: "D"(weight))

__attribute__((noinline)) static int mixed(int weight, long round) {
    int mix = weight;
    for (int bit = 0; bit < 16; bit++)
        mix = mix * 31 + (int)(round >> bit);
    return mix;
}

__attribute__((noinline)) static long weigh(struct item *item, long round) {
    long sum = 0;
    while (item) {
        STEP(item->weight);
        sum += mixed(item->weight, round);
        item = item->next;
    }
    return sum;
}

void _start(void) {
    for (long round = 0; round < 4000000; round++)
        total += weigh(items, round);
    __asm__ volatile("syscall" :: "a"(60), "D"(0));
}
