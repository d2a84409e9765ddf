// Many distinct deep stacks: random walks through 64 functions, each with its own frame size, on every core.
// build forest: -O2 -g -pthread
// build forest-fp: -O2 -g -fno-omit-frame-pointer -pthread
//
// forest [SECONDS [THREADS [DEPTH]]]: prints how many walks it made. DEPTH frames of 64 to 600 bytes.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

static std::atomic<bool> stop;

static inline std::uint64_t next(std::uint64_t &state) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

using Step = std::uint64_t (*)(std::uint64_t, int);
extern const std::array<Step, 64> steps;

template <int N> __attribute__((noinline)) std::uint64_t step(std::uint64_t state, int left) {
    volatile unsigned char room[16 + N * 8];
    room[N] = static_cast<unsigned char>(state);
    std::uint64_t sum = 0;
    if (left > 0) {
        next(state);
        sum = steps[state % 64](state, left - 1);
    }
    for (int i = 0; i < 40 + N; i++) sum += next(state) % 7;
    return sum + room[N];
}

template <std::size_t... N> constexpr std::array<Step, 64> table(std::index_sequence<N...>) {
    return {step<N>...};
}
const std::array<Step, 64> steps = table(std::make_index_sequence<64>());

static void walk(std::uint64_t seed, int depth, std::uint64_t *walks) {
    while (!stop.load(std::memory_order_relaxed)) {
        // A few paths are hot: most walks start from one of 512 seeds.
        std::uint64_t state = (next(seed) % 512 + 1) * 0x9E3779B97F4A7C15u;
        *walks += steps[state % 64](state, depth) != 0;
    }
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? std::atof(argv[1]) : 1;
    unsigned threads = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : std::thread::hardware_concurrency();
    int depth = argc > 3 ? std::atoi(argv[3]) : 40;
    std::vector<std::uint64_t> walks(threads * 16);
    std::vector<std::thread> all;
    for (unsigned i = 0; i < threads; i++) all.emplace_back(walk, i + 1, depth, &walks[i * 16]);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    stop = true;
    for (auto &thread : all) thread.join();
    std::uint64_t sum = 0;
    for (unsigned i = 0; i < threads; i++) sum += walks[i * 16];
    std::printf("%llu walks\n", static_cast<unsigned long long>(sum));
}
