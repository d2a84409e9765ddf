// As values.c, of C++: methods, references, strings, classes that are passed by reference.
// build values-cpp: -O2 -g -fpatchable-function-entry=5
#include <cstdio>
#include <stdexcept>
#include <string>

#define NOINLINE __attribute__((noinline, noipa))
#define PLAIN __attribute__((no_instrument_function))

enum class Level : short { Low = -2, High = 2 };

struct Counter {
    long value = 0;
    NOINLINE long add(int by, const int &times) { return value += by * times; }
};

struct Owner {
    explicit Owner(int n) : n(n) {}
    PLAIN ~Owner() { n = 0; }
    int n;
};

NOINLINE int greet(const std::string &name, std::string copy, Level level) {
    return (int)(name.size() + copy.size()) + (int)level;
}
NOINLINE int owned(Owner owner, int b) { return owner.n + b; }
struct Base {
    int b;
};
struct Derived : Base {
    static int shared;
    Level level;
};
NOINLINE std::string joined(const std::string &a, int n) { return a + "+" + std::to_string(n); }
NOINLINE Derived derived(Derived d) { return d.b++, d; }
NOINLINE Level worse(Level level) { return level == Level::High ? Level::Low : Level::High; }
NOINLINE int thrower(int n) {
    if (n > 1)
        throw std::runtime_error("no");
    return n;
}

PLAIN int main() {
    Counter counter;
    int times = 3;
    long sum = counter.add(5, times);
    printf("Counter::add(%p, 5, %p) = %ld;\n", (void *)&counter, (void *)&times, sum);
    printf("greet(\"world\", \"a longer string than fits inside\", High) = %d;\n",
           greet("world", "a longer string than fits inside", Level::High));
    printf("owned({n=3}, 4) = %d;\n", owned(Owner(3), 4));
    printf("joined(\"a\", 5) = \"%s\";\n", joined("a", 5).c_str());
    Derived d;
    d.b = 6, d.level = Level::Low;
    printf("derived({{b=6}, level=Low}) = {{b=%d}, level=Low};\n", derived(d).b);
    printf("worse(High) = %s;\n", worse(Level::High) == Level::Low ? "Low" : "?");
    printf("thrower(1) = %d;\n", thrower(1));
    try {
        thrower(2);
    } catch (const std::exception &) {
        printf("thrower(2); /* left without returning */\n");
    }
    return 0;
}
