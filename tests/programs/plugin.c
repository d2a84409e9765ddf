// The library half of the dlopen'ing program: code that is mapped while the recording runs.
// build plugin.so: -O2 -g -shared -fPIC
//
// Two functions, so that names must come from this file.

__attribute__((noinline)) long plugin_inner(long seed) {
    for (int i = 0; i < 1000; i++) seed = seed * 6364136223846793005UL + 1;
    return seed;
}

__attribute__((noinline)) long plugin_work(long rounds) {
    long sum = 0;
    for (long i = 0; i < rounds; i++) sum += plugin_inner(i);
    return sum;
}
