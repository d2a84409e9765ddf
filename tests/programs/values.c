// Calls functions of many signatures and prints each call as a tracer should show it: `name(arguments) = result`.
// build values: -O2 -g -fpatchable-function-entry=5
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NOINLINE __attribute__((noinline, noipa))
#define PLAIN __attribute__((no_instrument_function))

enum color { RED, GREEN = 5, BLUE = -1 };
enum flags { READ = 1, WRITE = 2, EXEC = 4 };
struct point { int x, y; };
struct large { long l[3]; };
struct vec { float x, y, z; };
struct mixed { double d; const char *p; };
struct line { struct point from, to; enum color c; unsigned char dash[3]; };
struct bits { unsigned low : 4, high : 4; short s; };

NOINLINE int add(int a, long b) { return a + (int)b; }
NOINLINE const char *pick(const char *text, unsigned char n) { return text + n; }
NOINLINE double scale(double x, float y, int n) { return x * y + n; }
NOINLINE enum color next(enum color c, enum flags f) { return f & EXEC ? BLUE : c == RED ? GREEN : RED; }
NOINLINE bool both(bool a, char c) { return a && c == 'x'; }
NOINLINE long many(long a, long b, long c, long d, long e, long f, long g, short h) {
    return a + b + c + d + e + f + g + h;
}
NOINLINE int by_value(struct point p, struct large l, int last) { return p.x + p.y + (int)l.l[1] + last; }
NOINLINE struct large hidden(int n, const char *s) { return (struct large){{n, (long)strlen(s), 0}}; }
NOINLINE struct vec turn(struct vec v, float by) { return (struct vec){v.y * by, v.z, v.x}; }
NOINLINE struct mixed mix(struct mixed m, double d) { return (struct mixed){m.d + d, m.p}; }
NOINLINE struct line longer(struct line l, int by) { return l.to.x += by, l; }
NOINLINE long crowded(long a, long b, long c, long d, long e, struct large f, struct mixed g, struct mixed h, struct point i) {
    return a + b + c + d + e + f.l[0] + f.l[1] * f.l[2] + (long)g.d + (long)h.d + (g.p != h.p) + i.x + i.y;
}
NOINLINE struct bits some(struct bits b) { return b.s++, b; }
NOINLINE double _Complex square(double _Complex z, float _Complex w) { return z * z + w; }
NOINLINE void nothing(void) { __asm__ volatile(""); }
NOINLINE unsigned length(const char *s) { return s > (char *)4096 ? (unsigned)strlen(s) : 0; }
NOINLINE long double half(long double x, int n) { return x / n; }
NOINLINE __int128 wider(int a, __int128 x, long b, long c, unsigned __int128 on_stack, int last) {
    return x + a + b + c + (__int128)on_stack + last;
}

PLAIN int main(void) {
    char text[256];
    memset(text, 'y', sizeof text);
    text[255] = 0;
    printf("add(-3, 9000000000) = %d;\n", add(-3, 9000000000));
    printf("pick(\"abc\\n\", 1) = \"%s\\n\";\n", strtok(strdup(pick("abc\n", 1)), "\n"));
    printf("scale(1.5, 0.25, 7) = %g;\n", scale(1.5, 0.25f, 7));
    printf("next(RED, READ|WRITE) = %s;\n", next(RED, READ | WRITE) == GREEN ? "GREEN" : "?");
    printf("next(GREEN, EXEC) = %s;\n", next(GREEN, EXEC) == BLUE ? "BLUE" : "?");
    printf("both(true, 'x') = %s;\n", both(true, 'x') ? "true" : "false");
    printf("many(1, 2, 3, 4, 5, 6, -7, -8) = %ld;\n", many(1, 2, 3, 4, 5, 6, -7, -8));
    struct large large = {{1, 2, 3}};
    printf("by_value({x=1, y=2}, {l={1, 2, 3}}, 4) = %d;\n", by_value((struct point){1, 2}, large, 4));
    hidden(5, "five");
    printf("hidden(5, \"five\") = {l={5, 4, 0}};\n");
    struct vec v = turn((struct vec){1.5, 2, -3}, 0.5);
    printf("turn({x=1.5, y=2, z=-3}, 0.5) = {x=%g, y=%g, z=%g};\n", v.x, v.y, v.z);
    struct mixed m = mix((struct mixed){0.25, NULL}, 4);
    printf("mix({d=0.25, p=0}, 4) = {d=%g, p=0};\n", m.d);
    m = mix((struct mixed){1, text}, 0);
    printf("mix({d=1, p=%p}, 0) = {d=1, p=%p};\n", (void *)text, (void *)m.p);
    m = (struct mixed){4.25, NULL};
    struct line line = {{1, -2}, {3, 4}, GREEN, {7, 0, 9}};
    line = longer(line, 10);
    // Formats of calls are short: who records printf's cuts them.
    printf("longer({from={x=1, y=-2}, to={x=3, y=4}, c=GREEN, dash={7, 0, 9}}, 10) = ");
    printf("{from={x=%d, y=%d}, to={x=%d, y=%d}, ", line.from.x, line.from.y, line.to.x, line.to.y);
    printf("c=%s, dash={%d, %d, %d}};\n", line.c == GREEN ? "GREEN" : "?", line.dash[0], line.dash[1], line.dash[2]);
    long sum = crowded(1, 2, 3, 4, 5, large, m, m, (struct point){6, 7});
    printf("crowded(1, 2, 3, 4, 5, {l={1, 2, 3}}, {d=4.25, p=0}, {d=4.25, p=0}, {x=6, y=7}) = %ld;\n", sum);
    int next_s = some((struct bits){1, 2, -9}).s;
    printf("some({low={...}, high={...}, s=-9}) = {low={...}, high={...}, s=%d};\n", next_s);
    double _Complex z = square(__builtin_complex(1.5, -2.0), __builtin_complex(0.5f, 1.0f));
    printf("square({re=1.5, im=-2}, {re=0.5, im=1}) = {re=%g, im=%g};\n", __real__ z, __imag__ z);
    nothing();
    printf("nothing();\n");
    printf("length(NULL) = %u;\n", length(NULL));
    printf("length(<unreadable>) = %u;\n", length((char *)16));
    printf("half(3, 2) = %Lg;\n", half(3, 2));
    printf("half(-0.25, 4) = %Lg;\n", half(-0.25L, 4));
    // 2 to the power of 100, and so on.
    bool is_right = wider(1, (__int128)1 << 100, 2, 3, 7, 4) == ((__int128)1 << 100) + 17;
    // clang before 18 puts one half in the last register and the other on the stack.
#if defined __clang__ && __clang_major__ < 18
    const char *on_stack = "<unreadable>";
#else
    const char *on_stack = "7";
#endif
    printf("wider(1, 1267650600228229401496703205376, 2, 3, %s, 4) = %s;\n", on_stack,
           is_right ? "1267650600228229401496703205393" : "?");
    is_right = wider(0, -((__int128)1 << 64), 0, 0, 0, 0) == -((__int128)1 << 64);
    printf("wider(0, -18446744073709551616, 0, 0, %s, 0) = %s;\n", on_stack[0] == '7' ? "0" : on_stack, is_right ? "-18446744073709551616" : "?");
    unsigned long_one = length(text);
    text[96] = 0;
    printf("length(\"%s\"...) = %u;\n", text, long_one);
    return 0;
}
