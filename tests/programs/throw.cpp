// C++ exceptions through several frames, destructors on the way; templates, so that names are long.
// build throw: -O2 -g
//
// throw [THOUSANDS]
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

struct Counter {
    long &count;
    explicit Counter(long &count) : count(count) {}
    ~Counter() { count++; }
};

template <typename Key, typename Value>
__attribute__((noinline)) const Value &look_up(const std::map<Key, std::vector<Value>> &table, const Key &key) {
    auto found = table.find(key);
    if (found == table.end()) throw std::out_of_range("no such key: " + key);
    return found->second.front();
}

__attribute__((noinline)) static int descend(const std::map<std::string, std::vector<int>> &table, int depth,
                                             long &unwound) {
    Counter counter(unwound);
    if (depth == 0) return look_up(table, std::string("absent"));
    return descend(table, depth - 1, unwound) + 1;
}

int main(int argc, char **argv) {
    long rounds = (argc > 1 ? atol(argv[1]) : 100) * 1000;
    std::map<std::string, std::vector<int>> table{{"present", {1}}};
    long unwound = 0, caught = 0;
    for (long i = 0; i < rounds; i++) {
        try {
            descend(table, 8, unwound);
        } catch (const std::out_of_range &) {
            caught++;
        }
    }
    std::printf("%ld %ld\n", caught, unwound);
}
